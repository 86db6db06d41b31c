#include <fmt/format.h>

#include "cli/commands.h"
#include "runtime/cache.h"

namespace quern::cli {

namespace {

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); value /= 1024) ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

void run_cache(bool clear, const Context& context) {
  std::shared_ptr<BinaryCache> cache = open_cache(context.settings);
  if (!cache) {
    fmt::print("no compiled programs are kept (setting QUERN_CACHE)\n");
    return;
  }
  if (clear) {
    CacheStats before = cache->clear();
    fmt::print("cleared {}: {} entries, {}\n", cache->file().string(), before.entries, size_text(before.bytes));
    return;
  }
  CacheStats s = cache->stats();
  fmt::print("file     {}\nentries  {}\nbytes    {} ({} of at most {})\nhits     {}\nmisses   {}\n",
             cache->file().string(), s.entries, s.bytes, size_text(s.bytes), size_text(cache->max_bytes()), s.hits,
             s.misses);
}

}  // namespace

void add_cache(CLI::App& app, Context& context) {
  auto clear = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("cache", "Show the cache of compiled programs");
  sub->add_flag("--clear", *clear, "Empty it");
  sub->callback([clear, &context] { run_cache(*clear, context); });
}

}  // namespace quern::cli
