#include "machined/config/controllers/sysctl-controller.h"

#include "common/testing/test-tree.h"
#include "machined/config/controllers/test-machine-config.h"

namespace talos::machined {
namespace {

struct SysctlControllerTest : public ConfigTest {
  ~SysctlControllerTest() noexcept override {}
};

// Catches: a caller who is answered before the kernel was asked; a refusal that only the console
// shows, or that it does not show any more; "in effect" before the boot sets anything.
TEST_F(SysctlControllerTest, SaysWhatAConfigAsksForInVain) {
  TestTree tree;
  tree.directory("sys/net");
  tree.file("sys/net/a", "0\n");
  UserSysctls own(tree.at("sys"), tree.at("notes"), SysctlScope::kNetwork);
  ControllerDependencies at{.arguments = arguments,
                            .platform = "container",
                            .uv = uv,
                            .port = io.unixEventPort,
                            .timer = timer,
                            .clock = clock,
                            .config = config,
                            .sysctls = own,
                            .warn = [this](kj::StringPtr text) { warnings.add(kj::str(text)); },
                            .showsStateToAnybody = [] { return false; }};
  publish(
      "machine: {type: worker, sysctls: {net.a: \"1\", vm.swappiness: \"10\"}}\n"
      "cluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n");
  EXPECT_EQ("Unavailable", kindOfFailure([&] { applySysctls(at, store).wait(io.waitScope); }));
  own.apply(nullptr);  // as the boot task does
  auto problems = applySysctls(at, store).wait(io.waitScope);
  ASSERT_EQ(1u, problems.size());
  EXPECT_TRUE(problems[0].startsWith("machine.sysctls.vm.swappiness: not set"))
      << problems[0].cStr();
  EXPECT_EQ("1\n", readFile(tree.at("sys/net/a")));
  EXPECT_EQ(1u, applySysctls(at, store).wait(io.waitScope).size());
  EXPECT_EQ(1u, warnings.size());
}

}  // namespace
}  // namespace talos::machined
