// Kernel events about devices that appear, disappear or change (a disc in a drive): the uevents of
// the subsystems block and scsi. A caller that calls next() before it looks at the devices misses
// no change.
#pragma once

#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/timer.h>
#include <linux/netlink.h>

namespace talos::machined {

// Returns true if the kernel sent the message. A process with CAP_NET_ADMIN in the network's
// namespace can send messages to the group, too (netlink(7)), and the modules that such messages
// name would be loaded.
bool isFromKernel(const struct sockaddr_nl& sender);

// The kernel's own uevents, as they come.
class UeventSocket {
 public:
  // Without such a socket in the kernel (in a container) there are no events.
  explicit UeventSocket(kj::UnixEventPort& port);

  // Edge-triggered: the caller calls it before drain(), so that no event is missed.
  kj::Promise<void> whenReadable();
  // Passes each received uevent to `each`; returns false if some were lost.
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

// Parses a uevent as the kernel sends it, "add@/devices/…\0ACTION=add\0SUBSYSTEM=block\0…". Any
// bytes are accepted.
bool concernsDisks(kj::ArrayPtr<const char> uevent);

// Waits for a disk that appears late: disks on USB and on some controllers appear seconds after
// their drivers were loaded.
constexpr auto kDiskWait = 60 * kj::SECONDS;

// Resolves with true as soon as `isThere` does, with false after kDiskWait. `isThere` is called
// repeatedly, because the kernel reports a disk before it knows the disk's partitions. `report`
// gets a line if the call has to wait for `what`; it must outlive the promise.
kj::Promise<bool> awaitDisk(kj::Timer& timer, kj::String what,
                            kj::Function<kj::Promise<bool>()> isThere,
                            kj::Function<void(kj::StringPtr line)>& report);

}  // namespace talos::machined
