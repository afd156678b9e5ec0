#include "talosctl/cluster/machines/qemu-arguments.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace talos::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class QemuArguments : public ::testing::Test {
 protected:
  capnp::MallocMessageBuilder message;
  rpc::LocalCluster::Builder cluster = message.initRoot<rpc::LocalCluster>();
  rpc::LocalNode::Builder node = cluster.initNodes(1)[0];

  QemuArguments() {
    cluster.setCidr("10.5.0.0/24");
    cluster.setGateway("10.5.0.1");
    node.setName("demo-master-1");
    node.setAddress("10.5.0.2");
  }
  ~QemuArguments() noexcept override {}
  std::string kernel() { return kernelArguments(cluster, node).cStr(); }
  void setExtra(std::initializer_list<const char*> arguments) {
    auto list = cluster.initExtraKernelArguments(arguments.size());
    size_t i = 0;
    for (auto argument : arguments) list.set(i++, argument);
  }
  std::string qemu(kj::StringPtr state, bool secondIsReadOnly = false) {
    return kj::strArray(
               qemuArguments(cluster, node, state, 7, 8,
                             {{.file = "/d,1"}, {.file = "/d2", .readOnly = secondIsReadOnly}}),
               " ")
        .cStr();
  }
};

// Catches: a user's talos.config after the default one, of which the node takes the first; a key
// taken for a longer key; arguments lost if there is no default argument.
TEST_F(QemuArguments, AnExtraKernelArgumentReplacesTheUsualOne) {
  EXPECT_THAT(kernel(),
              HasSubstr(" talos.config=http://10.5.0.1:8080/demo-master-1.yaml ip=10.5.0.2::"));
  setExtra({"talos.config=metal-iso", "panic=5", "talos.con=1", "quiet=x"});
  auto text = kernel();
  EXPECT_THAT(text, Not(HasSubstr("http:")));
  EXPECT_THAT(text, Not(HasSubstr("panic=1")));
  EXPECT_THAT(text, Not(HasSubstr("quiet ")));
  EXPECT_THAT(text, HasSubstr(" ip=10.5.0.2::10.5.0.1:255.255.255.0:demo-master-1:eth0:off"));
  EXPECT_TRUE(text.ends_with(":eth0:off talos.config=metal-iso panic=5 talos.con=1 quiet=x"))
      << text;
}

TEST_F(QemuArguments, ANodeWithoutAConfigGetsNoAddressOfOne) {
  cluster.setWithoutConfig(true);
  EXPECT_THAT(kernel(), Not(HasSubstr("talos.config")));
  EXPECT_THAT(kernel(), HasSubstr("talos.platform=metal ip=10.5.0.2::"));
}

// Catches: a CD-ROM drive without a medium, a vfat volume in a drive whose sectors are too large
// for it, a writable medium, a path with a comma that becomes an option, a write-protected disk
// that the guest can write to.
TEST_F(QemuArguments, DisksAndMedia) {
  auto plain = qemu("/s,x");
  EXPECT_THAT(plain, HasSubstr("discard=unmap,file.driver=file,file.filename=/d,,1 "
                               "-device virtio-blk-pci,drive=disk0 -drive "));
  EXPECT_THAT(plain, HasSubstr("file.filename=/d2 -device virtio-blk-pci,drive=disk1"));
  EXPECT_THAT(plain, Not(HasSubstr("readonly")));
  EXPECT_THAT(qemu("/s", true),
              AllOf(HasSubstr("discard=unmap,file.driver=file,file.filename=/d,,1 "),
                    HasSubstr("discard=unmap,readonly=on,file.driver=file,file.filename=/d2 ")));
  EXPECT_THAT(plain, HasSubstr("append=on,path=/s,,x/demo-master-1.log "));
  EXPECT_THAT(plain, Not(HasSubstr("scsi")));
  cluster.setIsoPath("/m.img");
  EXPECT_THAT(qemu("/s"), HasSubstr("readonly=on,media=disk,file=/m.img -device "
                                    "virtio-blk-pci,drive=medium"));
  cluster.setIsoInDrive(true);
  EXPECT_THAT(qemu("/s"), HasSubstr("readonly=on,media=cdrom,file=/m.img -device "
                                    "virtio-scsi-pci -device scsi-cd,drive=medium"));
}

// Catches: disks of a server whose flushes QEMU ignores, or whose files QEMU opens itself.
TEST_F(QemuArguments, DisksOfAServer) {
  cluster.setDiskServer("/run/a,b");
  auto text = qemu("/s", true);
  EXPECT_THAT(text, HasSubstr("format=raw,cache=writeback,discard=unmap,file.driver=nbd,"
                              "file.server.type=unix,file.server.path=/run/a,,b,"
                              "file.export=/d,,1 -device"));
  EXPECT_THAT(text, HasSubstr("readonly=on,file.driver=nbd"));
  EXPECT_THAT(text, Not(HasSubstr("file.filename")));
}

// Catches: a clock that is set without a request.
TEST_F(QemuArguments, AClockThatIsWrong) {
  EXPECT_THAT(qemu("/s"), Not(HasSubstr("-rtc")));
  cluster.setClock("2020-12-31T23:59:00");
  EXPECT_THAT(qemu("/s"), HasSubstr(" -rtc base=2020-12-31T23:59:00 "));
}

}  // namespace
}  // namespace talos::cluster
