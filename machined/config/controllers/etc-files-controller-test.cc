#include "machined/config/controllers/etc-files-controller.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/config/controllers/test-machine-config.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

struct EtcFilesTest : public ConfigTest {
  TestTree tree;
  kj::String folder = tree.at("etc"), linked = tree.at("run");

  // Returns the names of the files that have a record.
  kj::String shown() {
    kj::Vector<kj::String> names;
    for (auto file : store.list<rpc::EtcFileStatusSpec>()) names.add(kj::str(file.id()));
    return kj::strArray(names, " ");
  }
  kj::String version(kj::StringPtr file) {
    KJ_IF_MAYBE (found, store.tryGet<rpc::EtcFileStatusSpec>(file)) {
      return kj::str(found->getSpecVersion());
    }
    return kj::str("none");
  }
  // Runs the loop until isSo() returns true.
  void until(kj::FunctionParam<bool()> isSo) {
    for (unsigned i = 0; i < 1000 && !isSo(); ++i) {
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    EXPECT_TRUE(isSo()) << shown().cStr();
  }
};

// Catches: a file without a record, a deleted file with a record, a new text under the old version,
// a link into another folder whose changes are missed, and a folder that the boot makes later.
TEST_F(EtcFilesTest, EachFileHasARecordThatChangesWithIt) {
  runtime.add(kj::heap<EtcFilesController>(io.unixEventPort, folder, linked));
  poll();
  EXPECT_EQ(shown(), "");
  tree.directory("etc/cri");
  tree.directory("run");
  tree.file("etc/hosts", "one");
  tree.file("etc/hosts.unfinished-abc123", "tw");
  tree.link("etc/resolv.conf", kj::str(linked, "/resolv.conf"));
  put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("a"); });
  poll();
  EXPECT_EQ(shown(), "hosts") << "a folder, a link to nothing and half a file are none";
  auto before = version("hosts");
  tree.file("run/resolv.conf", "nameserver 10.5.0.1\n");
  until([&]() { return shown() == "hosts resolv.conf"; });
  EXPECT_EQ(version("hosts"), before);
  tree.file("etc/hosts", "two");
  until([&]() { return version("hosts") != before; });
  auto resolver = version("resolv.conf");
  tree.file("run/resolv.conf", "nameserver 10.5.0.2\n");
  until([&]() { return version("resolv.conf") != resolver; });
  KJ_SYSCALL(unlink(tree.at("etc/hosts").cStr()));
  until([&]() { return shown() == "resolv.conf"; });
}

// Catches: a new file that has the record of the previous one, because both were written within a
// tick of the kernel's clock; no records on a node whose name was known before the boot made the
// folders.
TEST_F(EtcFilesTest, FilesOfOneMomentAndFoldersOfALaterOneHaveRecords) {
  put<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("a"); });
  runtime.add(kj::heap<EtcFilesController>(io.unixEventPort, folder, linked));
  poll();
  tree.directory("etc");
  tree.directory("run");
  auto hosts = tree.at("etc/hosts");
  writeFileAtomically(hosts, "one"_kj, 0644);
  put<rpc::MachineConfigSpec>(kMachineConfigId, [](auto) {});
  poll();
  EXPECT_EQ(shown(), "hosts");
  auto written = [&](kj::StringPtr text) {
    struct timespec moment[] = {{1, 0}, {1, 0}};
    writeFileAtomically(hosts, text, 0644);
    KJ_SYSCALL(utimensat(AT_FDCWD, hosts.cStr(), moment, 0));
    runtime.poke("files.EtcFilesController");
    poll();
    return version("hosts");
  };
  auto before = written("one");
  EXPECT_NE(written("two"), before);
}

}  // namespace
}  // namespace talos::machined
