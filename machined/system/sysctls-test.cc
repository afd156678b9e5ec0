#include "machined/system/sysctls.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/net/text-values.h"
#include "machined/config/controllers/kernel-settings-controller.h"
#include "machined/resources/test-store.h"
#include "machined/system/test-system-tree.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SysctlsTest : public testing::Test {
 public:
  ~SysctlsTest() noexcept override {}

 protected:
  TestSystemTree tree;
  kj::Own<UserSysctls> sysctls;

  SysctlsTest() {
    makeDirectories(tree.path("/proc/net/ipv4/conf/eth0.100"));
    makeDirectories(tree.path("/proc/kernel"));
    tree.put("/proc/net/ipv4/ip_forward", "1\n");
    tree.put("/proc/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    tree.put("/proc/net/ipv4/conf/eth0.100/forwarding", "0\n");
    restart();
  }
  // Lines that the helper was requested to write, and its answer.
  std::vector<std::string> written;
  int answer = 0;
  kj::Maybe<int> writeByHelper(kj::StringPtr path, kj::StringPtr line) {
    if (path != "vm/mmap_min_addr") return nullptr;
    written.push_back(line.cStr());
    if (answer == 0) tree.put("/proc/vm/mmap_min_addr", line);
    return answer;
  }
  void restart(KernelScope scope = KernelScope::kAll) {  // of the brain
    sysctls = kj::heap<UserSysctls>(
        tree.path("/proc"), tree.path("/notes"), scope,
        [this](kj::StringPtr path, kj::StringPtr line) { return writeByHelper(path, line); });
  }
  std::vector<std::string> apply(
      std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> list) {
    kj::Vector<WantedSetting> wanted;
    for (auto& item : list) wanted.add(WantedSetting{kj::str(item.first), kj::str(item.second)});
    std::vector<std::string> problems;
    for (auto& p : sysctls->apply(wanted).list) problems.push_back(p.cStr());
    return problems;
  }
  // Returns the value as the kernel shows it; a write does not truncate the test's file.
  std::string value(kj::StringPtr path) {
    auto text = tree.get(kj::str("/proc/", path));
    return text.substr(0, text.find('\n'));
  }
};

// Catches: a parameter of the host's kernel that a node in a container writes, or "restores".
TEST_F(SysctlsTest, AContainerSetsItsNetworkOnly) {
  for (auto key : {"kernel/panic"_kj, "vm/overcommit_memory"_kj, "fs/file-max"_kj,
                   "user/max_user_namespaces"_kj, "netx/y"_kj}) {
    makeDirectories(
        tree.path(kj::str("/proc/", key.slice(0, KJ_ASSERT_NONNULL(key.findFirst('/'))))));
    tree.put(kj::str("/proc/", key), "host\n");
  }
  restart(KernelScope::kNetwork);
  for (auto key : {"kernel.panic"_kj, "vm.overcommit_memory"_kj, "fs.file-max"_kj,
                   "user.max_user_namespaces"_kj, "kernel/panic"_kj, "netx.y"_kj}) {
    EXPECT_THAT(apply({{key, "1"}}), ElementsAre(HasSubstr("this node is a container")))
        << key.cStr();
  }
  for (auto key : {"kernel/panic"_kj, "vm/overcommit_memory"_kj, "fs/file-max"_kj,
                   "user/max_user_namespaces"_kj, "netx/y"_kj}) {
    EXPECT_EQ("host", value(key));
  }
  EXPECT_THAT(apply({{"net.ipv4.ip_forward", "0"}, {"kernel.panic", "1"}}),
              ElementsAre(HasSubstr("machine.sysctls.kernel.panic")));
  EXPECT_EQ("0", value("net/ipv4/ip_forward"));
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("1", value("net/ipv4/ip_forward"));
  EXPECT_EQ("host", value("kernel/panic"));
}

// Catches: a value that stays after it was removed from the config, also after the brain died; the
// machine's original value that is lost at the second change.
TEST_F(SysctlsTest, WhatTheKernelHadComesBack) {
  EXPECT_FALSE(sysctls->begun());
  EXPECT_THAT(apply({{"net.ipv4.ip_forward", "0"}}), IsEmpty());
  EXPECT_TRUE(sysctls->begun());
  EXPECT_EQ("0", value("net/ipv4/ip_forward"));
  EXPECT_THAT(apply({{"net.ipv4.ip_forward", "2"}}), IsEmpty());
  EXPECT_EQ("2", value("net/ipv4/ip_forward"));
  restart();
  EXPECT_TRUE(sysctls->begun());
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("1", value("net/ipv4/ip_forward"));
  // The parameter is not managed any more: a value that another program sets stays.
  tree.put("/proc/net/ipv4/ip_forward", "7\n");
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("7", value("net/ipv4/ip_forward"));
}

// Catches: a value that is changed before the original is noted: a crash would lose it.
TEST_F(SysctlsTest, OriginalValueIsStoredBeforeTheChange) {
  UserSysctls forgetful(tree.path("/proc"), tree.path("/nowhere/notes"));
  kj::Vector<WantedSetting> wanted;
  wanted.add(WantedSetting{kj::str("net.ipv4.ip_forward"), kj::str("0")});
  EXPECT_ANY_THROW(forgetful.apply(wanted));
  EXPECT_EQ("1", value("net/ipv4/ip_forward"));
}

// Catches: a first refusal that stops the others; a refusal that is not reported.
TEST_F(SysctlsTest, AllAreAttemptedAndEachProblemIsReported) {
  EXPECT_THAT(
      apply({{"kernel.absent", "1"},
             {"net.ipv4", "1"},
             {"kernel/../x", "1"},
             {"x", "1"},
             {"net.ipv4.ip_forward", "0"}}),
      ElementsAre(HasSubstr("machine.sysctls.kernel/../x: not a valid name"),
                  HasSubstr("machine.sysctls.x: not a valid name"),
                  HasSubstr("kernel.absent: cannot set to \"1\": the kernel has no such"),
                  HasSubstr("machine.sysctls.net.ipv4: cannot set to \"1\": Is a directory")));
  EXPECT_EQ("0", value("net/ipv4/ip_forward"));
}

// Catches: a problem reported for ever because of a parameter that is gone with its module; a value
// that was never read and is "restored".
TEST_F(SysctlsTest, WhatIsGoneOrCannotBeReadIsNotSetBack) {
  tree.put("/proc/kernel/module", "1\n");
  tree.put("/proc/kernel/unreadable", std::string(70000, '9').c_str());  // more than is read
  EXPECT_THAT(apply({{"kernel.module", "0"}, {"kernel.unreadable", "8"}}), IsEmpty());
  EXPECT_EQ(0, unlink(tree.path("/proc/kernel/module").cStr()));
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("8", value("kernel/unreadable"));
}

// Catches: a link whose name has a dot that cannot be set.
TEST_F(SysctlsTest, NamesAreReadAsSysctlDoes) {
  EXPECT_THAT(apply({{"net.ipv4.conf.eth0/100.forwarding", "1"}}), IsEmpty());
  EXPECT_EQ("1", value("net/ipv4/conf/eth0.100/forwarding"));
  EXPECT_THAT(apply({{"net/ipv4/conf/eth0.100/forwarding", "2"}}), IsEmpty());
  EXPECT_EQ("2", value("net/ipv4/conf/eth0.100/forwarding"));
  EXPECT_EQ("a/b.c", config::sysctlPath("a.b/c").orDefault(nullptr));
  EXPECT_EQ("a/b.c", config::sysctlPath("a/b.c").orDefault(nullptr));
  for (auto bad : {"", "a", ".a", "a.", "a..b", "/a/b", "a/../b", "a/.", "a/", "a b.c", "a.b=c"})
    EXPECT_TRUE(config::sysctlPath(bad) == nullptr) << bad;
}

// Catches: a parameter that is set to the empty value (kernel.modprobe, kernel.core_pattern) and
// keeps its old one, because a write of 0 bytes does nothing.
TEST_F(SysctlsTest, AnEmptyValueIsSet) {
  tree.put("/proc/kernel/modprobe", "/sbin/modprobe\n");
  EXPECT_THAT(apply({{"kernel.modprobe", ""}}), IsEmpty());
  EXPECT_EQ("", value("kernel/modprobe"));
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_EQ("/sbin/modprobe", value("kernel/modprobe"));
}

// Catches: a parameter that needs a right which the brain lacks, and that the brain writes itself,
// sets and does not restore, or reports as set when the kernel refused it.
TEST_F(SysctlsTest, AnotherProcessWritesWhatAsksForAnotherRight) {
  makeDirectories(tree.path("/proc/vm"));
  tree.put("/proc/vm/mmap_min_addr", "65536\n");
  tree.put("/proc/vm/swappiness", "60\n");
  EXPECT_THAT(apply({{"vm.mmap_min_addr", "4096"}, {"vm.swappiness", "10"}}), IsEmpty());
  EXPECT_THAT(written, ElementsAre("4096\n"));
  EXPECT_EQ("10", value("vm/swappiness"));
  EXPECT_THAT(apply({}), IsEmpty());
  EXPECT_THAT(written, ElementsAre("4096\n", "65536\n"));
  answer = EPERM;
  EXPECT_THAT(apply({{"vm.mmap_min_addr", "0"}}),
              ElementsAre("machine.sysctls.vm.mmap_min_addr: cannot set to \"0\": Operation not "
                          "permitted"));
  EXPECT_EQ("65536", value("vm/mmap_min_addr"));
}

// Catches: a value that the kernel shows with tabs and that is rewritten at each change of the
// config.
TEST_F(SysctlsTest, AnEqualValueIsNotWritten) {
  auto before = tree.get("/proc/net/ipv4/tcp_rmem");
  EXPECT_THAT(apply({{"net.ipv4.tcp_rmem", "4096 131072  6291456"}}), IsEmpty());
  EXPECT_EQ(before, tree.get("/proc/net/ipv4/tcp_rmem"));
}

// Catches: a controller that sets values before the boot did, or that reports the same problem at
// each attempt.
TEST_F(SysctlsTest, TheControllerFollowsTheConfigOnceTheBootHasBegunIt) {
  auto io = kj::setupAsyncIo();
  UvLoop uv(io.unixEventPort, io.provider->getTimer());
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::StringPtr wanted = "0";
  std::vector<std::string> warnings;
  KernelSettings settings{{tree.path("/module"), tree.path("/modules"), KernelScope::kNetwork},
                          {tree.path("/sys"), tree.path("/drivers")},
                          {tree.path("/sys")},
                          {tree.path("/proc"), tree.path("/notes")}};
  KernelSettingsController controller(
      uv, settings,
      [&](Store&) -> kj::Maybe<WantedKernel> {
        WantedKernel kernel;
        kernel.sysctls.add(WantedSetting{kj::str("net.ipv4.ip_forward"), kj::str(wanted)});
        if (wanted != "2") return kj::mv(kernel);
        kernel.sysctls.add(WantedSetting{kj::str("kernel.absent"), kj::str("1")});
        return kj::mv(kernel);
      },
      [&](kj::StringPtr w) { warnings.push_back(w.cStr()); });
  controller.reconcile(store).wait(io.waitScope);
  EXPECT_EQ("1", value("net/ipv4/ip_forward"));
  ASSERT_THAT(apply({}), IsEmpty());  // the boot's task
  controller.reconcile(store).wait(io.waitScope);
  EXPECT_EQ("0", value("net/ipv4/ip_forward"));
  wanted = "2";
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto failed =
        kj::runCatchingExceptions([&]() { controller.reconcile(store).wait(io.waitScope); });
    EXPECT_TRUE(failed != nullptr) << "it would not be tried again";
  }
  EXPECT_EQ("2", value("net/ipv4/ip_forward"));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("kernel.absent")));
}

}  // namespace
}  // namespace talos::machined
