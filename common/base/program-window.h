// The window through which the host of a local cluster gives a virtual machine another program of a
// daemon (`talosctl debug replace`): memory of the host's, a file of the cluster's state folder,
// that QEMU shows the machine as a PCI device (ivshmem-plain, its second BAR). talosctl writes the
// file, machined reads the device at the start of a service.
//
// Only a machine that has the device looks for a program, and only its hypervisor gives it one:
// no call of an API, no kernel argument, no disk and no peer on the network can. Who adds PCI
// devices to a machine also has its memory, so this gives nobody a right that he does not have.
// Except where a hypervisor shares a device of this kind between guests: the other guest could
// write an order then. So a node is not to be given such a device. QEMU has the device only on the
// command line of a local cluster's machine; a disk that is taken out of such a cluster takes
// nothing of this along.
//
// The order stands there while the command runs. It is written behind its program, and has the
// digest of it: a torn one counts as none. A machine that boots finds its window as it was, so the
// command clears it at its end; one that was killed before leaves its order for the next start of
// that service.
#pragma once

#include <kj/string.h>
#include <stdint.h>

namespace talos::program_window {

// Red Hat's inter-VM shared memory, as sysfs writes it.
constexpr kj::StringPtr kVendor = "0x1af4"_kj, kDevice = "0x1110"_kj;
// Of a BAR, so a power of two. The program follows the first page.
constexpr size_t kBytes = 128u << 20, kProgramAt = 4096, kMostProgram = 64u << 20;
constexpr char kMagic[16] = "talos-program-1";  // with its zero

enum class Order : uint32_t { kNone = 0, kReplace = 1, kUndo = 2 };

// Little endian, as both architectures of a node are.
struct Header {
  char magic[16];
  char service[32];  // ends with a zero
  Order order;
  uint32_t reserved;
  uint64_t bytes;      // of the program; at most kMostProgram
  uint8_t digest[32];  // SHA-256 of the program; of kUndo of nothing
};
static_assert(sizeof(Header) == 96);

// <state folder>/<node>.window, 0600. Only its pages that were written take room.
inline kj::String fileOf(kj::StringPtr stateFolder, kj::StringPtr node) {
  return kj::str(stateFolder, "/", node, ".window");
}

}  // namespace talos::program_window
