// The protocol between the brain and a kernel helper, which has a right that the brain lacks.
//
// The helper has a SOCK_SEQPACKET socket as descriptor 3. Each packet on it carries one end of
// another such pair, in which the request waits: one packet, with the disk's descriptor if the
// request concerns a disk. The answer is one packet. If the pair closes without an answer, the
// process that made the call is gone, as after a fault in a driver. Both sides are from the same
// image.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <stdint.h>
#include <sys/types.h>

namespace talos::helper {

constexpr int kRequestsFd = 3;

// Arguments of the program.
constexpr kj::StringPtr kModules = "modules"_kj, kRawIo = "raw-io"_kj;

enum class Call : uint32_t {
  kInsertModule = 1,  // name: a file below /lib/modules/RELEASE; value: parameters
  kSetParameter,      // name: a file of kParameters below /proc/sys; value: a line
  kAtaStatus,         // a descriptor of a disk; SMART RETURN STATUS
};

// Kernel parameters that only a process with one of these rights may set.
struct Parameter {
  kj::StringPtr path;
  kj::StringPtr helper;
};
constexpr Parameter kParameters[] = {
    {"vm/mmap_min_addr"_kj, kRawIo},
    {"kernel/usermodehelper/bset"_kj, kModules},
    {"kernel/usermodehelper/inheritable"_kj, kModules},
};

constexpr size_t kMostText = 8192;
struct Request {
  Call call;
  int32_t niceness;   // of the process that makes the call
  uint32_t nameSize;  // without the terminating zeros
  uint32_t valueSize;
  char text[kMostText];  // both, each with a terminating zero; the packet ends after that
};

constexpr size_t kMostSense = 64;
struct Answer {
  int32_t error = 0;        // an errno
  uint32_t hostStatus = 0;  // of the request to the disk
  uint32_t senseSize = 0;
  unsigned char sense[kMostSense] = {};
};

// --- packets of such sockets, with or without a descriptor

// Returns 0 or an errno. `fd`: -1 if the packet has no descriptor.
int sendPacket(int socket, kj::ArrayPtr<const char> bytes, int fd = -1);

struct Packet {
  ssize_t size = -1;  // 0: the other side is gone; -1: an error, in errno
  kj::Maybe<kj::AutoCloseFd> fd;
};
// Receives a packet. A packet longer than `into`, or with several descriptors, is an error
// (EMSGSIZE).
Packet receivePacket(int socket, kj::ArrayPtr<char> into, int flags = 0);

}  // namespace talos::helper
