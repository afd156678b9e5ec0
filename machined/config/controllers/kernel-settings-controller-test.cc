#include "machined/config/controllers/kernel-settings-controller.h"

#include "common/testing/test-tree.h"
#include "machined/config/controllers/test-machine-config.h"

namespace talos::machined {
namespace {

struct KernelSettingsControllerTest : public ConfigTest {
  ~KernelSettingsControllerTest() noexcept override {}
};

// Catches: a caller who is answered before the kernel has; a refusal that only the console shows,
// or that later answers omit; "in effect" before the boot sets anything.
TEST_F(KernelSettingsControllerTest, SaysWhatAConfigAsksForInVain) {
  TestTree tree;
  tree.directory("sys/net");
  tree.file("sys/net/a", "0\n");
  KernelSettings own{{tree.at("module"), tree.at("modules"), KernelScope::kNetwork},
                     {tree.at("devices"), tree.at("drivers"), KernelScope::kNetwork},
                     {tree.at("devices"), KernelScope::kNetwork},
                     {tree.at("sys"), tree.at("notes"), KernelScope::kNetwork}};
  ControllerDependencies at{.arguments = arguments,
                            .platform = "container",
                            .uv = uv,
                            .port = io.unixEventPort,
                            .timer = timer,
                            .clock = clock,
                            .config = config,
                            .kernel = own,
                            .watchdog = watchdog,
                            .warn = [this](kj::StringPtr text) { warnings.add(kj::str(text)); },
                            .showsStateToAnybody = [] { return false; }};
  publish(
      "machine: {type: worker, sysctls: {net.a: \"1\", vm.swappiness: \"10\"},\n"
      "  kernel: {modules: [{name: x}, {name: y}]}, sysfs: {a.b: c, d.e: f}}\n"
      "cluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"
      "---\napiVersion: v1alpha1\nkind: PCIDriverRebindConfig\nname: '0000:04:00.0'\n"
      "targetDriver: vfio-pci\n");
  EXPECT_EQ("Unavailable",
            kindOfFailure([&] { applyKernelSettings(at, store).wait(io.waitScope); }));
  own.apply({});  // as the boot tasks do
  auto problems = applyKernelSettings(at, store).wait(io.waitScope);
  ASSERT_EQ(4u, problems.size());
  EXPECT_TRUE(problems[0].startsWith("machine.kernel.modules: not loaded")) << problems[0].cStr();
  EXPECT_TRUE(problems[1].startsWith("PCIDriverRebindConfig: no driver is bound"))
      << problems[1].cStr();
  EXPECT_TRUE(problems[2].startsWith("machine.sysfs: not written")) << problems[2].cStr();
  EXPECT_TRUE(problems[3].startsWith("machine.sysctls.vm.swappiness: not set"))
      << problems[3].cStr();
  EXPECT_EQ("1\n", readFile(tree.at("sys/net/a")));
  EXPECT_EQ(4u, applyKernelSettings(at, store).wait(io.waitScope).size());
  EXPECT_EQ(4u, warnings.size());
  publish(
      "machine: {type: worker, watchdog: {device: /dev/watchdog0}}\n"
      "cluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n");
  problems = applyKernelSettings(at, store).wait(io.waitScope);
  ASSERT_EQ(1u, problems.size());
  EXPECT_EQ("machine.watchdog: there is no /dev/watchdog0", problems[0]);
}

}  // namespace
}  // namespace talos::machined
