#pragma once
#include <string_view>

namespace quern {

/// Types of a buffer's elements, and of values.
enum class DataType { Bool, Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64, Half, BFloat16, Float, Double };

std::string_view to_string(DataType type);  ///< "float", "half", "int", "uchar": the names of kernel texts
int size_of(DataType type);                 ///< bytes of an element

}  // namespace quern
