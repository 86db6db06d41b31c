// What this machine can do, on threads=N pinned threads: multiply-adds a second from registers, and bytes a second from arrays beyond
// every cache: reading, copying, copying past the caches. Compiled for the ISA at hand; vectors are as wide as it has.

#include <atomic>
#include <thread>

#include <immintrin.h>
#include <sched.h>

#include "peer.h"

namespace {

#if defined(__AVX512F__)
using Float = __m512;
using Int = __m512i;
Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
Float splat(float x) { return _mm512_set1_ps(x); }
Float load(const float* p) { return _mm512_load_ps(p); }
Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
void stream(float* p, Float x) { _mm512_stream_ps(p, x); }
void store(float* p, Float x) { _mm512_store_ps(p, x); }
constexpr int kAccumulators = 24;
#elif defined(__AVX2__) && defined(__FMA__)
using Float = __m256;
Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
Float splat(float x) { return _mm256_set1_ps(x); }
Float load(const float* p) { return _mm256_load_ps(p); }
Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
void stream(float* p, Float x) { _mm256_stream_ps(p, x); }
void store(float* p, Float x) { _mm256_store_ps(p, x); }
constexpr int kAccumulators = 12;
#else
using Float = __m128;
Float fma(Float a, Float b, Float c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
Float splat(float x) { return _mm_set1_ps(x); }
Float load(const float* p) { return _mm_load_ps(p); }
Float add(Float a, Float b) { return _mm_add_ps(a, b); }
void stream(float* p, Float x) { _mm_stream_ps(p, x); }
void store(float* p, Float x) { _mm_store_ps(p, x); }
constexpr int kAccumulators = 12;
#endif
constexpr int64_t kLanes = sizeof(Float) / sizeof(float);

/// Keeps a value from being optimized away.
template <class T>
void keep(T& value) {
  asm volatile("" : "+v"(value));
}

/// `steps` times an operation on as many independent sums as hide its latency.
template <class T, class F>
void chains(int64_t steps, T zero, F&& operation) {
  T sums[kAccumulators];
#pragma GCC unroll 32
  for (int j = 0; j < kAccumulators; ++j) {
    sums[j] = zero;
    keep(sums[j]);  // or the compiler sees that all are the same
  }
  for (int64_t i = 0; i < steps; ++i)
#pragma GCC unroll 32
    for (int j = 0; j < kAccumulators; ++j) sums[j] = operation(sums[j]);
#pragma GCC unroll 32
  for (int j = 0; j < kAccumulators; ++j) keep(sums[j]);
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  return cpus;
}

/// Seconds of the fastest round in which all threads did `work(thread)` at once.
template <class F>
double best_round(int threads, double seconds, F&& work) {
  const std::vector<int> cpus = allowed_cpus();
  std::atomic<int> arrived = 0, round = 0;
  std::atomic<bool> done = false;
  double best = 1e30;
  auto run = [&](int thread) {
    pin(cpus[static_cast<size_t>(thread) % cpus.size()]);
    const auto begin = peer::Clock::now();
    for (int r = 0;; ++r) {
      if (arrived.fetch_add(1) + 1 == threads) {
        arrived = 0;
        round = r + 1;
      }
      while (round != r + 1) _mm_pause();
      if (done) return;
      const auto start = peer::Clock::now();
      work(thread);
      if (arrived.fetch_add(1) + 1 == threads) {
        const auto stop = peer::Clock::now();
        best = std::min(best, std::chrono::duration<double>(stop - start).count());
        done = std::chrono::duration<double>(stop - begin).count() > seconds && r >= 3;
        arrived = 0;
        round = -(r + 1);
      }
      while (round != -(r + 1)) _mm_pause();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& t : others) t.join();
  return best;
}

/// Operations a second: `per_step` in each operation of chains().
template <class T, class F>
double operations(int threads, double seconds, double per_step, T zero, F&& operation) {
  constexpr int64_t kSteps = 1 << 13;
  const double best = best_round(threads, seconds, [&](int) { chains(kSteps, zero, operation); });
  return per_step * kAccumulators * static_cast<double>(kSteps) * threads / best;
}

struct Arrays {
  explicit Arrays(int64_t floats, int threads)
      : each(floats / threads / 1024 * 1024),
        in(static_cast<size_t>(floats) * 4),
        out(static_cast<size_t>(floats) * 4) {}
  const float* read(int thread) const { return in.as<float>() + thread * each; }
  float* write(int thread) const { return out.as<float>() + thread * each; }
  int64_t each;
  peer::Bytes in, out;
};

/// The sum of what four streams read: each is a quarter of the thread's part.
void read_all(const Arrays& a, int thread) {
  Float sums[8];
  for (Float& sum : sums) sum = splat(0);
  const float* p = a.read(thread);
  const int64_t quarter = a.each / 4;
  for (int64_t i = 0; i < quarter; i += 2 * kLanes)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sums[j] = add(sums[j], load(p + (j / 2) * quarter + i + (j % 2) * kLanes));
  for (Float& sum : sums) keep(sum);
}

void copy_plain(const Arrays& a, int thread) {
  const float* from = a.read(thread);
  float* to = a.write(thread);
  for (int64_t i = 0; i < a.each; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(to + i + j * kLanes, load(from + i + j * kLanes));
}

void copy_past_caches(const Arrays& a, int thread) {
  const float* from = a.read(thread);
  float* to = a.write(thread);
  for (int64_t i = 0; i < a.each; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) stream(to + i + j * kLanes, load(from + i + j * kLanes));
  _mm_sfence();
}

void measure(const peer::Arguments& arguments) {
  const int threads = static_cast<int>(arguments.number("threads"));
  const double seconds = arguments.real("seconds") / 6;
  // Not constants: they would be folded.
  Float a = splat(0.5F), b = splat(0.25F);
  keep(a);
  keep(b);
  std::printf("{\"lanes\": %d, \"float\": %.6g", static_cast<int>(kLanes),
              operations(threads, seconds, 2 * kLanes, splat(0), [&](Float x) { return fma(a, b, x); }));
#if defined(__AVX512BF16__)
  std::printf(", \"bfloat16\": %.6g", operations(threads, seconds, 64, splat(0), [&](Float x) {
                return _mm512_dpbf16_ps(x, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
              }));
#endif
#if defined(__AVX512VNNI__)
  // As text: of the intrinsic gcc 12 makes a loop that moves its sums to memory and back.
  const Int ints = _mm512_castps_si512(a);
  std::printf(", \"char\": %.6g", operations(threads, seconds, 128, _mm512_setzero_si512(), [ints](Int x) {
                asm volatile("vpdpbusd %1, %1, %0" : "+v"(x) : "v"(ints));
                return x;
              }));
#endif
  const int64_t floats = arguments.number("bytes") / 4;
  const Arrays arrays(floats, threads);
  const double bytes = static_cast<double>(arrays.each) * threads * 4;
  const double read = best_round(threads, seconds, [&](int t) { read_all(arrays, t); });
  const double plain = best_round(threads, seconds, [&](int t) { copy_plain(arrays, t); });
  const double past = best_round(threads, seconds, [&](int t) { copy_past_caches(arrays, t); });
  std::printf(", \"read\": %.6g, \"copy\": %.6g, \"nt_copy\": %.6g}\n", bytes / read, 2 * bytes / plain,
              2 * bytes / past);
}

}  // namespace

int main(int argc, char** argv) { return peer::run_peer(argc, argv, measure); }
