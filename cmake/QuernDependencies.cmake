# The libraries Quern is built on. Headers of all of them are system headers: no warnings from there.

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(QUERN_CLI)
  find_package(CLI11 REQUIRED)
endif()

find_path(QUERN_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(QUERN_XXHASH_LIBRARY xxhash REQUIRED)
mark_as_advanced(QUERN_XXHASH_INCLUDE QUERN_XXHASH_LIBRARY)
add_library(quern_xxhash INTERFACE)
add_library(quern::xxhash ALIAS quern_xxhash)
target_link_libraries(quern_xxhash INTERFACE xxhash)

# LLVM is linked as its shared library, so that another LLVM (an OpenCL driver's) can live in the same process.
set(QUERN_HAVE_LLVM OFF)
set(QUERN_LLVM_LIBRARY "")
if(QUERN_LLVM)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)   # LLVM's own search for what its tools would need says nothing of use here
  find_package(LLVM 19.1 CONFIG QUIET HINTS /usr/lib/llvm-19)
  unset(CMAKE_MESSAGE_LOG_LEVEL)
  if(LLVM_FOUND)
    set(QUERN_HAVE_LLVM ON)
    set(QUERN_LLVM_LIBRARY LLVM)
    target_compile_definitions(quern_flags INTERFACE QUERN_HAVE_LLVM=1)
    target_include_directories(LLVM SYSTEM INTERFACE "${LLVM_INCLUDE_DIRS}")
  else()
    message(STATUS "LLVM 19 not found: building without the in-process CPU device")
  endif()
endif()
