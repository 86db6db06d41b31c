#pragma once
// What the suite's C++ peers share: arguments KEY=VALUE, arrays in .npy files, timing. They are compiled at run time for the machine at
// hand and print one line of JSON.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace peer {

using Clock = std::chrono::steady_clock;

/// Thrown where a peer has nothing for a case: not an error.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string text = argv[i];
      const size_t at = text.find('=');
      if (at == std::string::npos) throw std::runtime_error("not KEY=VALUE: " + text);
      values_[text.substr(0, at)] = text.substr(at + 1);
    }
  }
  const std::string& text(const std::string& key) const {
    auto it = values_.find(key);
    if (it == values_.end()) throw std::runtime_error("no argument " + key);
    return it->second;
  }
  int64_t number(const std::string& key) const { return std::stoll(text(key)); }
  double real(const std::string& key) const { return std::stod(text(key)); }
  bool has(const std::string& key) const { return values_.contains(key); }

 private:
  std::map<std::string, std::string> values_;
};

/// Aligned as allocators of numeric libraries align.
class Bytes {
 public:
  explicit Bytes(size_t size) : size_(size), data_(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096)) {
    if (data_ == nullptr) throw std::runtime_error("out of memory");
    std::memset(data_, 0, size);
  }
  Bytes(Bytes&& other) noexcept : size_(other.size_), data_(other.data_) { other.data_ = nullptr; }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { std::free(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  size_t size_;
  void* data_;
};

inline Bytes read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw std::runtime_error("cannot open " + path);
  const auto size = static_cast<size_t>(in.tellg());
  unsigned char head[12] = {};
  in.seekg(0);
  in.read(reinterpret_cast<char*>(head), sizeof head);
  const size_t start = head[6] == 1 ? 10 + head[8] + 256 * size_t{head[9]}
                                    : 12 + head[8] + 256 * size_t{head[9]} + 65536 * size_t{head[10]};
  Bytes bytes(size - start);
  in.seekg(static_cast<std::streamoff>(start));
  in.read(bytes.as<char>(), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw std::runtime_error("cannot read " + path);
  return bytes;
}

/// `descr` is NumPy's name of the type.
inline void write_npy(const std::string& path, const Bytes& bytes, const std::string& descr, size_t elements) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + std::to_string(elements) + ",), }";
  header.resize(117, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
  out.write(bytes.as<char>(), static_cast<std::streamsize>(bytes.size()));
  if (!out) throw std::runtime_error("cannot write " + path);
}

/// Calls a function for so many seconds and prints its best and median time.
template <class F>
void time_and_print(F&& function, double seconds) {
  for (int i = 0; i < 2; ++i) function();  // warm
  std::vector<double> times;
  const auto begin = Clock::now();
  double elapsed = 0;
  do {
    const auto start = Clock::now();
    function();
    const auto stop = Clock::now();
    times.push_back(std::chrono::duration<double>(stop - start).count());
    elapsed = std::chrono::duration<double>(stop - begin).count();
  } while (elapsed < seconds || (times.size() < 3 && elapsed < seconds + 2));
  std::sort(times.begin(), times.end());
  std::printf("{\"best\": %.9g, \"median\": %.9g, \"runs\": %zu}\n", times.front(), times[times.size() / 2],
              times.size());
}

/// Runs a peer's main; a case it has nothing for is told in the answer.
template <class F>
int run_peer(int argc, char** argv, F&& main) {
  try {
    main(Arguments(argc, argv));
    return 0;
  } catch (const Skip& e) {
    std::printf("{\"skip\": \"%s\"}\n", e.what());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace peer
