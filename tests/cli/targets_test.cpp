#include <algorithm>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/target_table.h"
#include "runtime/device.h"
#include "target/target.h"

namespace quern::test {
namespace {

TEST(TargetsPage, is_the_committed_one) {
  const std::string path = QUERN_SOURCE_DIR "/docs/targets.md";
  std::stringstream committed;
  committed << std::ifstream(path).rdbuf();
  const Result printed = quern("targets --markdown");
  EXPECT_EQ(printed.status, 0);
  EXPECT_EQ(printed.out, committed.str()) << "./dev doc writes it";
}

TEST(TargetsPage, names_the_devices_that_take_a_target) {
  for (const DeviceInfo& d : devices()) {
    if (!d.available) continue;
    const std::shared_ptr<Device> device = open_device(d.name);
    for (const std::string& name : target_names()) {
      const Target& target = find_target(name);
      const bool listed = std::ranges::count(cli::devices_for(target), d.name) == 1;
      const bool may_be_too_old = d.name == "CUDA";  // a GPU takes the targets up to its own
      if (may_be_too_old)
        EXPECT_TRUE(listed || !device->accepts(target)) << name;
      else
        EXPECT_EQ(device->accepts(target), listed) << d.name << " " << name;
    }
  }
}

TEST(Targets, lists_the_devices_of_this_machine) {
  const Result r = quern("targets");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_THAT(r.out, testing::ContainsRegex("metal +METAL .* INTERP  +8x8x8 float->float"));
}

}  // namespace
}  // namespace quern::test
