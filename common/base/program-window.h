// Window through which the host of a local cluster gives a virtual machine another program for a
// daemon (`talosctl debug replace`): memory of the host, in a file of the cluster's state folder,
// that QEMU shows the machine as a PCI device (ivshmem-plain, its second BAR). talosctl writes the
// file; machined reads the device when it starts a service.
//
// Only a machine with the device looks for a program, and only its hypervisor can provide one: no
// API call, kernel argument, disk or network peer can. A party that adds PCI devices to a machine
// can also change the machine's memory, so the window gives it no new right. The exception is a
// hypervisor that shares such a device between guests: then the other guest could write an order,
// so a node must not have such a device. QEMU has the device only on the command line of a local
// cluster's machine; a disk that is moved out of such a cluster carries none of this.
//
// The command writes the program first, then the order, which holds the program's SHA-256. A partly
// written order fails this check and is ignored. A machine that boots finds its window unchanged,
// so the command clears the order when it ends. If the command is killed first, the order stays,
// and the next start of the service obeys it.
#pragma once

#include <kj/string.h>
#include <stdint.h>

namespace talos::program_window {

// PCI ids of Red Hat's inter-VM shared memory, as sysfs writes them.
constexpr kj::StringPtr kVendor = "0x1af4"_kj, kDevice = "0x1110"_kj;
// Size of the BAR, so a power of two. The program follows the first page.
constexpr size_t kBytes = 128u << 20, kProgramAt = 4096, kMostProgram = 64u << 20;
constexpr char kMagic[16] = "talos-program-1";  // including its NUL

enum class Order : uint32_t { kNone = 0, kReplace = 1, kUndo = 2 };

// Little endian, as both architectures of a node are.
struct Header {
  char magic[16];
  char service[32];  // ends with a NUL
  Order order;
  uint32_t reserved;
  uint64_t bytes;      // size of the program; at most kMostProgram
  uint8_t digest[32];  // SHA-256 of the program; for kUndo of no bytes
};
static_assert(sizeof(Header) == 96);

// Returns <state folder>/<node>.window, 0600. Only pages that were written occupy space.
inline kj::String fileOf(kj::StringPtr stateFolder, kj::StringPtr node) {
  return kj::str(stateFolder, "/", node, ".window");
}

}  // namespace talos::program_window
