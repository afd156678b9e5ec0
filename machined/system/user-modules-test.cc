#include "machined/system/user-modules.h"

#include <errno.h>
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "machined/system/test-system-tree.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A kernel that shows loaded modules in /sys/module, and an image with a handful of modules.
class UserModulesTest : public testing::Test {
 public:
  ~UserModulesTest() noexcept override {}

 protected:
  TestSystemTree tree;
  std::vector<std::string> calls;  // "name parameters"
  std::set<std::string> refused, hanging;
  std::map<std::string, int> faster;  // loaded by another program just before the call
  kj::Own<UserModules> modules;

  UserModulesTest() {
    makeDirectories(tree.path("/sys"));
    for (auto name : {"ifb", "dummy", "nvme-core", "nvme-tcp", "virtio_net"}) {
      tree.put(kj::str("/", name, ".ko"), name);
    }
    restart();
  }
  void restart(KernelScope scope = KernelScope::kAll) {  // of the brain
    modules = kj::heap<UserModules>(tree.path("/sys"), tree.path("/notes"), scope,
                                    [this] { return image(); });
  }
  Modules image() {
    return Modules(kj::str(tree.root),
                   ModuleIndex("ifb.ko:\ndummy.ko:\nnvme-core.ko:\nvirtio_net.ko:\n"
                               "nvme-tcp.ko: nvme-core.ko\n",
                               "", "kernel/fs/ext4/ext4.ko\n"),
                   [this](kj::StringPtr, kj::StringPtr file, kj::StringPtr parameters) {
                     return insert(file, parameters);
                   });
  }
  int insert(kj::StringPtr file, kj::StringPtr parameters) {
    calls.push_back(kj::str(file.slice(0, file.size() - 3), parameters.size() > 0 ? " " : "",
                            parameters)
                        .cStr());  // without ".ko"
    auto name = plainModuleName(file);
    if (refused.count(name.cStr()) > 0) return EINVAL;
    if (hanging.count(name.cStr()) > 0) {
      showAs("coming", name);
      fail(ErrorKind::kDeadlineExceeded, "its driver may hang");
    }
    bool there = faster.count(name.cStr()) > 0;
    load(name);
    return there ? EEXIST : 0;
  }
  void load(kj::StringPtr name) { makeDirectories(tree.path(kj::str("/sys/", name))); }
  void showAs(kj::StringPtr state, kj::StringPtr name) {
    load(name);
    tree.put(kj::str("/sys/", name, "/initstate"), kj::str(state, "\n"));
  }
  void reboot() {
    unlink(tree.path("/notes").cStr());
    removeTree(tree.path("/sys"));
    makeDirectories(tree.path("/sys"));
    restart();
  }
  SettingProblems report(kj::StringPtr items) {
    auto document = kj::str("machine:\n  type: worker\n  kernel: {modules: [", items,
                            "]}\ncluster:\n  controlPlane: {endpoint: 'https://10.0.0.1:6443'}\n");
    auto config = config::parse(document);
    EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
    calls.clear();
    return modules->apply(wantedModules(config.get().getMachine()));
  }
  std::vector<std::string> apply(kj::StringPtr items) {
    std::vector<std::string> problems;
    for (auto& p : report(items).list) problems.push_back(p.cStr());
    return problems;
  }
};

// Catches: modules in another order; a dependency that is missing, or that gets the module's
// parameters; defaults that are lost, or that come after the config's value, which then has no
// effect.
TEST_F(UserModulesTest, AreLoadedInTheirOrderWithTheirParameters) {
  EXPECT_THAT(
      apply("{name: nvme_tcp, parameters: [a=1, 'b=\"x y\"']}, {name: ifb}, {name: ext4}, "
            "{name: dummy, parameters: [numdummies=2]}, {name: nvme-core, parameters: [c]}"),
      IsEmpty());
  EXPECT_THAT(calls, ElementsAre("nvme-core c", "nvme-tcp a=1 b=\"x y\"", "ifb",
                                 "dummy numdummies=0 numdummies=2"));
}

// Catches: a module that is loaded at each change of the config; a problem reported for parameters
// that a module has since an earlier brain.
TEST_F(UserModulesTest, AreLoadedOnce) {
  auto items = "{name: ifb, parameters: [numifbs=3]}"_kj;
  EXPECT_THAT(apply(items), IsEmpty());
  EXPECT_THAT(apply(items), IsEmpty());
  EXPECT_THAT(calls, IsEmpty());
  restart();
  EXPECT_THAT(apply("{name: ifb, parameters: [numifbs=3]}, {name: dummy}"), IsEmpty());
  EXPECT_THAT(calls, ElementsAre("dummy numdummies=0"));
}

// Catches: parameters that have no effect without a report; a reboot that is requested in vain.
TEST_F(UserModulesTest, ParametersOfALoadedModuleAreAProblem) {
  load("virtio_net");
  auto early = "{name: virtio_net, parameters: [napi_tx=0]}, {name: ifb, parameters: [a=1]}"_kj;
  EXPECT_THAT(apply(early), ElementsAre(HasSubstr("\"virtio_net\" was loaded before the config")));
  restart();
  EXPECT_THAT(apply(early), ElementsAre(HasSubstr("\"virtio_net\" was loaded before the config")));
  EXPECT_THAT(apply("{name: virtio_net}, {name: ifb, parameters: [a=2]}"),
              ElementsAre("machine.kernel.modules: \"ifb\" is loaded already, so its parameters do "
                          "not change; reboot to apply them"));
  EXPECT_THAT(apply("{name: ifb}"), ElementsAre(HasSubstr("reboot"))) << "it still has a=1";
  load("dummy");  // by a device, after the boot
  EXPECT_THAT(apply("{name: dummy, parameters: [a]}"), ElementsAre(HasSubstr("reboot to apply")));
  reboot();
  EXPECT_THAT(apply("{name: dummy, parameters: [a]}"), IsEmpty());
  reboot();
  EXPECT_THAT(apply(""), IsEmpty());
  load("ifb");
  EXPECT_THAT(apply("{name: ifb, parameters: [a]}"), ElementsAre(HasSubstr("reboot to apply")))
      << "the boot had no modules, and this is another call";
}

// Catches: a race that is lost and reported as won.
TEST_F(UserModulesTest, SomethingElseMayBeFaster) {
  faster["ifb"] = 1;
  EXPECT_THAT(apply("{name: ifb, parameters: [a=1]}"), ElementsAre(HasSubstr("cannot be set")));
}

// Catches: a first failure that stops the others; a failure without its cause; a failure that is
// reported at each attempt; a failed module that is noted as if it had its parameters.
TEST_F(UserModulesTest, AllAreAttemptedAndEachProblemIsReported) {
  refused = {"ifb"};
  auto items =
      "{name: no-such}, {name: ifb, parameters: [x=y]}, {name: ext4, parameters: [a=1]}, "
      "{name: dummy}"_kj;
  auto first = report(items);
  EXPECT_TRUE(first.news);
  EXPECT_FALSE(first.retry);
  ASSERT_EQ(3u, first.list.size());
  EXPECT_EQ("machine.kernel.modules: cannot load \"no-such\": the image has no such module",
            first.list[0]);
  EXPECT_THAT(first.list[1].cStr(), HasSubstr("\"ifb\": the kernel refused the module"));
  EXPECT_THAT(first.list[1].cStr(), HasSubstr("Invalid argument"));
  EXPECT_THAT(first.list[2].cStr(), HasSubstr("extraKernelArgs: ext4.NAME=VALUE"));
  EXPECT_THAT(calls, ElementsAre("ifb x=y", "dummy numdummies=0"));
  EXPECT_FALSE(report(items).news);
  EXPECT_THAT(calls, ElementsAre("ifb x=y"));
  load("ifb");
  EXPECT_THAT(apply("{name: ifb, parameters: [x=y]}"), ElementsAre(HasSubstr("loaded already")));
}

// Catches: a module whose driver hangs and that counts as loaded, because sysfs shows it; a reboot
// that is requested in vain after the driver has started with its parameters, or that is not
// requested after it has started without them.
TEST_F(UserModulesTest, ADriverThatHangsIsAProblemUntilItHasStarted) {
  auto items = "{name: ifb, parameters: [a=1]}"_kj;
  hanging = {"ifb"};
  EXPECT_THAT(apply(items), ElementsAre(HasSubstr("\"ifb\": its driver may hang")));
  restart();
  EXPECT_THAT(apply(items), ElementsAre(HasSubstr("\"ifb\": its driver may hang")));
  EXPECT_THAT(apply("{name: ifb}"), ElementsAre(HasSubstr("\"ifb\": its driver may hang")));
  showAs("live", "ifb");
  EXPECT_THAT(apply(items), IsEmpty());
  EXPECT_THAT(apply("{name: ifb}"), ElementsAre(HasSubstr("reboot to apply")));

  showAs("coming", "dummy");  // for a device
  hanging = {"dummy"};
  EXPECT_THAT(apply("{name: dummy, parameters: [a]}"), ElementsAre(HasSubstr("may hang")));
  showAs("live", "dummy");
  EXPECT_THAT(apply("{name: dummy, parameters: [a]}"), ElementsAre(HasSubstr("reboot to apply")));
}

// Catches: a module that a container loads into its host's kernel.
TEST_F(UserModulesTest, AContainerLoadsNone) {
  restart(KernelScope::kNetwork);
  auto problems = report("{name: ifb}, {name: dummy}");
  ASSERT_EQ(1u, problems.list.size());
  EXPECT_THAT(problems.list[0].cStr(), HasSubstr("this node is a container"));
  EXPECT_FALSE(problems.retry);
  EXPECT_THAT(calls, IsEmpty());
  EXPECT_FALSE(report("{name: ifb}").news);
  EXPECT_THAT(apply(""), IsEmpty());
}

}  // namespace
}  // namespace talos::machined
