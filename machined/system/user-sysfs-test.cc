#include "machined/system/user-sysfs.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/config/config.h"
#include "machined/system/test-system-tree.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UserSysfsTest : public testing::Test {
 public:
  ~UserSysfsTest() noexcept override {}

 protected:
  TestSystemTree tree;
  kj::Own<UserSysfs> sysfs;

  UserSysfsTest() {
    for (auto folder : {"/sys/devices/system/cpu", "/sys/class/net", "/sys/devices/x/eth0.100"}) {
      makeDirectories(tree.path(folder));
    }
    tree.put("/sys/devices/system/cpu/governor", "powersave\n");
    tree.put("/sys/devices/x/eth0.100/mtu", "1500\n");
    tree.link("../../devices/x/eth0.100", "/sys/class/net/eth0.100");
    tree.put("/var/outside", "mine\n");
    restart();
  }
  void restart(KernelScope scope = KernelScope::kAll) {  // of the brain
    sysfs = kj::heap<UserSysfs>(tree.path("/sys"), scope);
  }
  SettingProblems report(kj::StringPtr values) {
    auto document = kj::str("machine:\n  type: worker\n  sysfs: {", values,
                            "}\ncluster:\n  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n");
    auto config = config::parse(document);
    EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
    return sysfs->apply(wantedSettings(config.get().getMachine().getSysfs()));
  }
  std::vector<std::string> apply(kj::StringPtr values) {
    std::vector<std::string> problems;
    for (auto& p : report(values).list) problems.push_back(p.cStr());
    return problems;
  }
  // Returns the value as the kernel shows it; a write does not truncate the test's file.
  std::string value(kj::StringPtr path) {
    auto text = tree.get(path);
    return text.substr(0, text.find('\n'));
  }
};

// Catches: a path that is accepted in one of the two notations only; refused links inside of sysfs,
// by which most devices are named.
TEST_F(UserSysfsTest, WritesByBothNotations) {
  EXPECT_THAT(apply("devices.system.cpu.governor: performance, class/net/eth0.100/mtu: 1400"),
              IsEmpty());
  EXPECT_EQ("performance", value("/sys/devices/system/cpu/governor"));
  EXPECT_EQ("1400", value("/sys/devices/x/eth0.100/mtu"));
  EXPECT_THAT(apply("class.net.eth0/100.mtu: 1300"), IsEmpty());
  EXPECT_EQ("1300", value("/sys/devices/x/eth0.100/mtu"));
}

// Catches: a write that a link leads to another file system; a file that is made.
TEST_F(UserSysfsTest, NeverLeavesSysfs) {
  tree.link("../../var/outside", "/sys/class/up");
  tree.link("../../var", "/sys/class/folder");
  tree.link(tree.path("/var/outside"), "/sys/class/absolute");
  for (auto path : {"class/absolute"_kj, "class/up"_kj, "class/folder/outside"_kj}) {
    EXPECT_THAT(apply(kj::str(path, ": x")), ElementsAre(HasSubstr("leads outside")))
        << path.cStr();
  }
  EXPECT_THAT(apply("class/new: x"), ElementsAre(HasSubstr("there is no such file")));
  EXPECT_EQ("(none)", tree.get("/sys/class/new"));
  EXPECT_EQ("mine", value("/var/outside"));
  WantedSetting up{kj::str("class/../../var/outside"), kj::str("x")};
  EXPECT_EQ(1u, sysfs->apply(kj::arrayPtr(&up, 1)).list.size());
  EXPECT_EQ("mine", value("/var/outside"));
}

// Catches: a first refusal that stops the others; a refusal without its cause.
TEST_F(UserSysfsTest, AllAreAttemptedAndEachProblemIsReported) {
  auto values =
      "devices.system.absent: 1, devices.system.cpu: 1, devices.system.cpu.governor: x"_kj;
  auto first = report(values);
  EXPECT_TRUE(first.news);
  EXPECT_TRUE(first.retry);
  ASSERT_EQ(2u, first.list.size());
  EXPECT_EQ(kj::str("machine.sysfs.devices.system.absent: cannot write \"1\" to ", tree.root,
                    "/sys/devices/system/absent: there is no such file"),
            first.list[0]);
  EXPECT_THAT(first.list[1].cStr(), HasSubstr("/sys/devices/system/cpu: Is a directory"));
  EXPECT_EQ("x", value("/sys/devices/system/cpu/governor"));
  EXPECT_FALSE(report(values).news);
}

// Catches: a file that acts on each write, such as a bus scan, and is written at each change of
// another key; a value that a retry or a new config does not write.
TEST_F(UserSysfsTest, AValueIsWrittenOnce) {
  auto governor = "/sys/devices/system/cpu/governor"_kj;
  EXPECT_THAT(apply("devices.system.cpu.governor: a, devices.late: 1"),
              ElementsAre(HasSubstr("devices/late")));
  tree.put(governor, "other\n");
  tree.put("/sys/devices/late", "0\n");
  EXPECT_THAT(apply("devices.system.cpu.governor: a, devices.late: 1"), IsEmpty());
  EXPECT_EQ("other", value(governor));
  EXPECT_EQ("1", value("/sys/devices/late"));
  EXPECT_THAT(apply("devices.system.cpu.governor: b"), IsEmpty());
  EXPECT_EQ("b", value(governor));
  EXPECT_THAT(apply(""), IsEmpty());
  EXPECT_EQ("b", value(governor)) << "a removed key is not undone";
  tree.put(governor, "other\n");
  EXPECT_THAT(apply("devices.system.cpu.governor: b"), IsEmpty());
  EXPECT_EQ("b", value(governor));
}

// Catches: swap that is still compressed after the document ZswapConfig was removed; a problem that
// does not name the document.
TEST_F(UserSysfsTest, ValuesOfZswapAreGivenBack) {
  makeDirectories(tree.path("/sys/module/zswap/parameters"));
  tree.put("/sys/module/zswap/parameters/enabled", "N\n");
  tree.put("/sys/module/zswap/parameters/max_pool_percent", "20\n");
  auto both =
      "module.zswap.parameters.max_pool_percent: '30', module.zswap.parameters.enabled: 'Y'"_kj;
  EXPECT_THAT(apply(both), IsEmpty());
  EXPECT_EQ("Y", value("/sys/module/zswap/parameters/enabled"));
  EXPECT_THAT(apply("module.zswap.parameters.enabled: 'Y'"), IsEmpty());
  EXPECT_EQ("20", value("/sys/module/zswap/parameters/max_pool_percent"));
  EXPECT_EQ("Y", value("/sys/module/zswap/parameters/enabled"));
  EXPECT_THAT(apply(""), IsEmpty());
  EXPECT_EQ("N", value("/sys/module/zswap/parameters/enabled"));
  EXPECT_THAT(
      apply("module.zswap.parameters.absent: 'Y'"),
      ElementsAre(HasSubstr("ZswapConfig: machine.sysfs.module.zswap.parameters.absent: ")));
  restart(KernelScope::kNetwork);
  EXPECT_THAT(apply(both), ElementsAre(HasSubstr("ZswapConfig: not written, because")));
}

// Catches: a file of the host's kernel that a container writes.
TEST_F(UserSysfsTest, AContainerWritesNone) {
  restart(KernelScope::kNetwork);
  auto values = "devices.system.cpu.governor: x, devices.system.absent: y"_kj;
  auto problems = report(values);
  ASSERT_EQ(1u, problems.list.size());
  EXPECT_THAT(problems.list[0].cStr(), HasSubstr("this node is a container"));
  EXPECT_FALSE(problems.retry);
  EXPECT_FALSE(report(values).news);
  EXPECT_EQ("powersave", value("/sys/devices/system/cpu/governor"));
}

}  // namespace
}  // namespace talos::machined
