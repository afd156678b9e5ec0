// Notices from the kernel that a device came, went or changed (a disc in a drive): the uevents of
// the subsystems block and scsi. Call next() before looking at the devices, and nothing is missed.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>

namespace talos::machined {

class DeviceEvents {
 public:
  // Where the kernel gives no such socket (in a container), next() never resolves.
  explicit DeviceEvents(kj::UnixEventPort& port);

  // Resolves at the first event since the last call, or since construction.
  kj::Promise<void> next();

 private:
  kj::AutoCloseFd socket;
  kj::Own<kj::UnixEventPort::FdObserver> observer;
  bool drain();  // whether one was among them
};

// "add@/devices/…\0ACTION=add\0SUBSYSTEM=block\0…" as the kernel sends it. Anything is parsed.
bool concernsDisks(kj::ArrayPtr<const char> uevent);

}  // namespace talos::machined
