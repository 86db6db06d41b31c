// A BLAS library's products: library=FILE prefix=NAMES operation=matmul m= n= k= batch= ta= tb= dtype= in_a= in_b= [output=] seconds=

#include <dlfcn.h>

#include "peer.h"

namespace {

enum { kRowMajor = 101, kNoTrans = 111, kTrans = 112 };

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
using Sgemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

template <class F>
F symbol(void* library, const std::string& name) {
  void* found = dlsym(library, name.c_str());
  if (found == nullptr) throw std::runtime_error("no symbol " + name);
  return reinterpret_cast<F>(found);
}

void finish(const peer::Arguments& a, const peer::Bytes& out, auto&& function) {
  function();
  if (a.has("output")) peer::write_npy(a.text("output"), out, "<f4", out.size() / sizeof(float));
  peer::time_and_print(function, a.real("seconds"));
}

void matmul(const peer::Arguments& a, void* library) {
  if (a.text("dtype") != "float") throw peer::Skip("only floats");
  const auto gemm = symbol<Sgemm>(library, a.text("prefix") + "cblas_sgemm");
  const int m = static_cast<int>(a.number("m")), n = static_cast<int>(a.number("n")),
            k = static_cast<int>(a.number("k"));
  const int64_t batch = a.number("batch");
  const bool ta = a.number("ta") != 0, tb = a.number("tb") != 0;
  const peer::Bytes x = peer::read_npy(a.text("in_a")), y = peer::read_npy(a.text("in_b"));
  const peer::Bytes out(static_cast<size_t>(batch) * static_cast<size_t>(m) * static_cast<size_t>(n) * sizeof(float));
  finish(a, out, [&] {
    for (int64_t i = 0; i < batch; ++i)
      gemm(kRowMajor, ta ? kTrans : kNoTrans, tb ? kTrans : kNoTrans, m, n, k, 1, x.as<float>() + i * m * k, ta ? m : k,
           y.as<float>() + i * k * n, tb ? k : n, 0, out.as<float>() + i * m * n, n);
  });
}

void matvec(const peer::Arguments& a, void* library) {
  const auto gemv = symbol<Sgemv>(library, a.text("prefix") + "cblas_sgemv");
  const int m = static_cast<int>(a.number("m")), k = static_cast<int>(a.number("k"));
  const bool transposed = a.number("transposed") != 0;
  const peer::Bytes x = peer::read_npy(a.text("in_a")), y = peer::read_npy(a.text("in_x"));
  const peer::Bytes out(static_cast<size_t>(m) * sizeof(float));
  finish(a, out, [&] {
    if (transposed)
      gemv(kRowMajor, kTrans, k, m, 1, x.as<float>(), m, y.as<float>(), 1, 0, out.as<float>(), 1);
    else
      gemv(kRowMajor, kNoTrans, m, k, 1, x.as<float>(), k, y.as<float>(), 1, 0, out.as<float>(), 1);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return peer::run_peer(argc, argv, [](const peer::Arguments& a) {
    void* library = dlopen(a.text("library").c_str(), RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(dlerror());
    if (a.text("operation") == "matmul") return matmul(a, library);
    if (a.text("operation") == "matvec") return matvec(a, library);
    throw peer::Skip("no such routine in BLAS");
  });
}
