#include "talosctl/cluster/machines/qemu-arguments.h"

#include <kj/debug.h>

#include "common/base/program-window.h"
#include "common/net/ip.h"
#include "talosctl/cluster/disks/node-disks.h"
#include "talosctl/cluster/network/node-servers.h"

namespace talos::cluster {
namespace {

kj::ArrayPtr<const char> keyOf(kj::StringPtr argument) {
  KJ_IF_MAYBE (equals, argument.findFirst('=')) return argument.slice(0, *equals);
  return argument.asArray();
}

// Doubles commas, because a single comma ends a value in QEMU's option lists.
kj::String escaped(kj::StringPtr path) {
  kj::Vector<char> result;
  for (char c : path) {
    result.add(c);
    if (c == ',') result.add(c);
  }
  return kj::heapString(result.asPtr());
}

// Returns the arguments with which every node of a local cluster starts.
kj::Vector<kj::String> usualArguments(rpc::LocalCluster::Reader cluster,
                                      rpc::LocalNode::Reader node) {
  kj::Vector<kj::String> result;
  // Skips the kernel's self-tests of its ciphers, at the start and for each signed module: they
  // would take a third of the boot time of an emulated processor.
  for (auto argument : {"console=ttyS0", "quiet", "panic=1", "no_timer_check", "cryptomgr.notests",
                        "slab_nomerge", "init_on_alloc=1", "talos.platform=metal"}) {
    result.add(kj::str(argument));
  }
  if (!cluster.getWithoutConfig()) {
    result.add(kj::str("talos.config=http://", cluster.getGateway(), ":", kConfigPort, "/",
                       node.getName(), ".yaml"));
  }
  result.add(addressArgument(cluster, node));
  return result;
}

}  // namespace

kj::String addressArgument(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node) {
  auto cidr = KJ_REQUIRE_NONNULL(Prefix::parse(cluster.getCidr()), "not a network");
  return kj::str("ip=", node.getAddress(), "::", cluster.getGateway(), ":", maskOf(cidr.length),
                 ":", node.getName(), ":eth0:off");
}

kj::String kernelArguments(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node) {
  auto extra = cluster.getExtraKernelArguments();
  kj::Vector<kj::String> result;
  for (auto& argument : usualArguments(cluster, node)) {
    bool replaced = false;
    for (auto other : extra) replaced = replaced || keyOf(other) == keyOf(argument);
    if (!replaced) result.add(kj::mv(argument));
  }
  for (auto argument : extra) result.add(kj::str(argument));
  return kj::strArray(result, " ");
}

kj::ArrayPtr<const kj::StringPtr> installedKernelArguments() {
  static constexpr kj::StringPtr kArguments[] = {"console=ttyS0"_kj, "quiet"_kj, "panic=1"_kj,
                                                 "no_timer_check"_kj, "cryptomgr.notests"_kj};
  return kArguments;
}

namespace {

// A file is as durable as the host's page cache: the guest's flushes would only keep the host's
// disks busy. A disk server decides about flushes by itself.
kj::String diskOptions(rpc::LocalCluster::Reader cluster, const MachineDisk& disk) {
  kj::StringPtr access = disk.readOnly ? "readonly=on,"_kj : ""_kj;
  auto file = escaped(disk.file);
  if (cluster.getDiskServer().size() == 0) {
    return kj::str("format=raw,cache=unsafe,discard=unmap,", access,
                   "file.driver=file,file.filename=", file);
  }
  return kj::str("format=raw,cache=writeback,discard=unmap,", access,
                 "file.driver=nbd,file.server.type=unix,file.server.path=",
                 escaped(cluster.getDiskServer()), ",file.export=", file);
}

// Adds kernel and initramfs of the host, or the firmware that starts the disk.
void addStart(kj::Vector<kj::String>& args, rpc::LocalCluster::Reader cluster,
              rpc::LocalNode::Reader node, kj::StringPtr state, StartFrom from) {
  auto add = [&](auto&&... parts) { args.add(kj::str(kj::fwd<decltype(parts)>(parts)...)); };
  // A reboot ends this run; the next run starts from the disk's present content.
  if (cluster.getWithBootLoader()) add("-no-reboot");
  if (from == StartFrom::kHost) {
    add("-kernel"), add(cluster.getKernel());
    add("-initrd"), add(cluster.getInitramfs());
    add("-append"), add(kernelArguments(cluster, node));
  } else if (cluster.getWithUefi()) {
    add("-drive"), add("if=pflash,unit=0,format=raw,readonly=on,file=",
                       escaped(firmwareFile(cluster.getQemuRoot(), "OVMF_CODE_4M.fd")));
    add("-drive"),
        add("if=pflash,unit=1,format=raw,file=", escaped(state), "/", node.getName(), ".vars");
  }
}

}  // namespace

kj::Vector<kj::String> qemuArguments(rpc::LocalCluster::Reader cluster, rpc::LocalNode::Reader node,
                                     kj::StringPtr state, int tapFd, int monitorFd,
                                     kj::ArrayPtr<const MachineDisk> disks, StartFrom from) {
  kj::Vector<kj::String> args;
  auto add = [&](auto&&... parts) { args.add(kj::str(kj::fwd<decltype(parts)>(parts)...)); };
  bool kvm = cluster.getAccelerator() == "kvm";
  add("-name"), add(node.getName());
  add("-nodefaults"), add("-no-user-config"), add("-nographic");
  // Leaves out the unused disk controller: the search for disks there takes half a second.
  add("-M"), add("q35,sata=off");
  add("-accel"), add(kvm ? "kvm" : "tcg,thread=multi");
  add("-cpu"), add(kvm ? "host" : "max");
  add("-smp"), add(node.getCpus());
  if (cluster.getClock().size() > 0) add("-rtc"), add("base=", cluster.getClock());
  add("-m"), add(node.getMemory() >> 20);
  if (node.getUuid().size() > 0) add("-uuid"), add(node.getUuid());
  add("-chardev"),
      add("file,id=console,append=on,path=", escaped(state), "/", node.getName(), ".log");
  add("-serial"), add("chardev:console");
  add("-chardev"), add("socket,id=monitor,fd=", monitorFd);
  add("-mon"), add("chardev=monitor,mode=control");
  // A path relative to QEMU's folder: an absolute path might be too long for a socket.
  add("-qmp"), add("unix:", escaped(node.getName()), ".qmp,server=on,wait=off");
  addStart(args, cluster, node, state, from);
  for (auto i : kj::indices(disks)) {
    add("-drive"), add("if=none,id=disk", i, ",", diskOptions(cluster, disks[i]));
    auto boots = from == StartFrom::kDisk ? kj::str(",bootindex=", i) : kj::str();
    add("-device"), add("virtio-blk-pci,drive=disk", i, boots);
  }
  if (cluster.getIsoPath().size() > 0) {
    add("-drive"),
        add("if=none,id=medium,format=raw,readonly=on,media=",
            cluster.getIsoInDrive() ? "cdrom" : "disk", ",file=", escaped(cluster.getIsoPath()));
    if (cluster.getIsoInDrive()) add("-device"), add("virtio-scsi-pci");
    add("-device"),
        add(cluster.getIsoInDrive() ? "scsi-cd,drive=medium" : "virtio-blk-pci,drive=medium");
  }
  // Firmware memory (pstore) that keeps a dying kernel's messages, also over a restart of QEMU.
  add("-object"), add("memory-backend-file,id=erst,share=on,size=64K,mem-path=", escaped(state),
                      "/", node.getName(), ".erst");
  add("-device"), add("acpi-erst,memdev=erst");
  add("-netdev"), add("tap,id=net,fd=", tapFd);
  // Speed and duplex are set because 802.3ad keeps ports down while the speed is unknown. A boot
  // ROM is not needed.
  add("-device"),
      add("virtio-net-pci,netdev=net,romfile=,speed=1000,duplex=full,mac=", node.getMac(),
          ",host_mtu=", cluster.getMtu());
  add("-device"), add("virtio-rng-pci");
  // Must be last, so that no other device gets another address.
  add("-object"), add("memory-backend-file,id=window,share=on,size=", program_window::kBytes,
                      ",mem-path=", escaped(program_window::fileOf(state, node.getName())));
  add("-device"), add("ivshmem-plain,memdev=window");
  return args;
}

}  // namespace talos::cluster
