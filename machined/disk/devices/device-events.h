// Notices from the kernel that a device came, went or changed (a disc in a drive): the uevents of
// the subsystems block and scsi. Call next() before looking at the devices, and nothing is missed.
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>
#include <kj/io.h>
#include <linux/netlink.h>

namespace talos::machined {

// True if the kernel has sent it: whoever has CAP_NET_ADMIN in the network's namespace may send
// messages to the group, too (netlink(7)), and what they name would be loaded.
bool isFromKernel(const struct sockaddr_nl& sender);

// The kernel's own uevents, as they come.
class UeventSocket {
 public:
  // Where the kernel gives no such socket (in a container) there are none.
  explicit UeventSocket(kj::UnixEventPort& port);

  // Edge-triggered: ask before a drain(), and nothing is missed.
  kj::Promise<void> whenReadable();
  // Gives each that has come to `each`; false if some were lost.
  bool drain(kj::FunctionParam<void(kj::ArrayPtr<const char>)> each);

 private:
  kj::AutoCloseFd socket;
  kj::Own<kj::UnixEventPort::FdObserver> observer;
};

class DeviceEvents {
 public:
  // Where the kernel gives no such socket (in a container), next() never resolves.
  explicit DeviceEvents(kj::UnixEventPort& port) : events(port) {}

  // Resolves at the first event since the last call, or since construction.
  kj::Promise<void> next();

 private:
  UeventSocket events;
};

// "add@/devices/…\0ACTION=add\0SUBSYSTEM=block\0…" as the kernel sends it. Anything is parsed.
bool concernsDisks(kj::ArrayPtr<const char> uevent);

}  // namespace talos::machined
