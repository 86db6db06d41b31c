# How every target is compiled: the language, warnings, sanitizers, ccache. Sets the interface target quern_flags.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g -D_GLIBCXX_ASSERTIONS")
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
  endif()
  find_program(QUERN_CCACHE ccache)
  if(QUERN_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${QUERN_CCACHE}")
  endif()
endif()

add_library(quern_flags INTERFACE)
# Constants are folded with the host's arithmetic, so it has to be IEEE to the bit: no contraction, no fast math.
target_compile_options(quern_flags INTERFACE -fno-fast-math -ffp-contract=off)
target_compile_options(quern_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Both report values that cannot be reached in inlined standard library code, at -O2 with gcc 12.
  target_compile_options(quern_flags INTERFACE
    -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-missing-field-initializers)
else()
  # Designated initializers leave the other fields at their defaults, on purpose.
  target_compile_options(quern_flags INTERFACE
    -Wno-missing-field-initializers -Wno-missing-designated-field-initializers -fshow-overloads=best)
endif()
if(QUERN_WERROR)
  target_compile_options(quern_flags INTERFACE -Werror)
endif()

if(QUERN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "QUERN_FUZZ needs clang: configure with the fuzz preset")
  endif()
  set(QUERN_SANITIZE address undefined)
  target_compile_options(quern_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(QUERN_SANITIZE)
  list(JOIN QUERN_SANITIZE "," sanitizers)
  # The vptr check would need type information from libraries that are not instrumented.
  set(sanitizer_flags -fsanitize=${sanitizers} -fno-sanitize=vptr)
  target_compile_options(quern_flags INTERFACE ${sanitizer_flags} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(quern_flags INTERFACE ${sanitizer_flags})
endif()
