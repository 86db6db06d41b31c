#pragma once
#include <string>
#include <vector>

namespace quern::test {

/// Kernel texts of the conformance folder, both files; empty where it is absent.
std::vector<std::string> conformance_kernels();

/// out[i] = a[i] + 2, as small as a kernel gets.
inline const std::string kAddTwo =
    "UOp(Ops.SINK,dtypes.void,arg=None,src=(UOp(Ops.STORE,dtypes.void,arg=None,src=(UOp(Ops.DEFINE_GLOBAL,dtypes.float."
    "ptr(),"
    "arg=0,src=()),x2:=UOp(Ops.VIEW,dtypes.void,arg=ShapeTracker(views=(View(shape=(8,),strides=(1,),offset=0,mask="
    "None,"
    "contiguous=True),)),src=()),UOp(Ops.ADD,dtypes.float,arg=None,src=(UOp(Ops.LOAD,dtypes.float,arg=None,src=("
    "UOp(Ops.DEFINE_GLOBAL,dtypes.float.ptr(),arg=1,src=()),x2,)),UOp(Ops.CONST,dtypes.float,arg=2.0,src=()),)),)),))";

}  // namespace quern::test
