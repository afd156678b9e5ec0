// Controllers that list the file systems on the disks, and the mounted ones, for `talosctl get`:
// block.DiscoveredVolumesController writes DiscoveredVolumes, block.DisksController Disks and
// SystemDisks, runtime.MountStatusController MountStatuses. And block.VolumeController, which makes
// the volumes of documents after a boot (data-volumes.h). They look when the kernel reports a
// change (device-events.h; the table of mounts), once for a burst of changes. While a device does
// not respond, DiscoveredVolumes are looked for again after 30 s, then after twice as long, up to
// 10 min.
//
// Volumes are looked at after the boot, so that a boot does not wait for them.
#pragma once

#include <kj/async-unix.h>

#include "common/base/backoff.h"
#include "common/base/signal.h"
#include "machined/disk/devices/device-events.h"
#include "machined/disk/devices/storage-server.h"
#include "machined/disk/volumes/volume-search.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

// A controller that is woken by events other than changes of resources; the events of a burst,
// within `settles`, wake it once.
class WokenController : public Controller {
 public:
  using NextChange = kj::Function<kj::Promise<void>()>;  // first since the last call
  WokenController(kj::Timer& timer, kj::Duration settles, NextChange next)
      : timer(timer), settles(settles), next(kj::mv(next)) {}
  void wakeBy(kj::Function<void()> wake) override;

 private:
  kj::Timer& timer;
  kj::Duration settles;
  NextChange next;
  kj::Promise<void> waking = kj::NEVER_DONE;

  kj::Promise<void> wakeAtChanges(kj::Function<void()> wake);
};

class DiscoveredVolumesController final : public WokenController {
 public:
  using Look = kj::Function<kj::Promise<kj::Vector<Volume>>()>;
  DiscoveredVolumesController(kj::Timer& timer, Look look, NextChange next);

  kj::StringPtr name() const override { return "block.DiscoveredVolumesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  kj::Timer& timer;
  Look look;
  NextChange nextEvent;
  Backoff silence{{30 * kj::SECONDS, 10 * kj::MINUTES}};
  Signal again;
  kj::Promise<void> waiting = kj::NEVER_DONE;
};

class DisksController final : public WokenController {
 public:
  struct Disks {
    kj::Vector<DiskFacts> facts;
    kj::Maybe<kj::String> system;  // the disk with META: "vda"
  };
  using Look = kj::Function<kj::Promise<Disks>()>;
  DisksController(kj::Timer& timer, Look look, NextChange next);

  kj::StringPtr name() const override { return "block.DisksController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Look look;
};

class MountStatusController final : public WokenController {
 public:
  using Read = kj::Function<kj::Promise<kj::String>()>;  // the text of mountinfo
  MountStatusController(kj::Timer& timer, Read read, NextChange next);

  kj::StringPtr name() const override { return "runtime.MountStatusController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Read read;
};

// Makes the volumes of the config again when the config or the disks have changed, or a trial of
// the system is over, while the node runs. The boot has made them once.
class VolumeController final : public WokenController {
 public:
  using Work = kj::Function<kj::Promise<void>(Store& store)>;
  VolumeController(kj::Timer& timer, Work work, NextChange next);

  kj::StringPtr name() const override { return "block.VolumeController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Work work;
};

// block.SwapStatusController: lists the devices that the kernel uses as swap. The kernel reports no
// change of the amounts, so they are read again each 15 s.
class SwapStatusController final : public WokenController {
 public:
  explicit SwapStatusController(kj::Timer& timer, kj::StringPtr table = "/proc/swaps");

  kj::StringPtr name() const override { return "block.SwapStatusController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  kj::String table;
};

// Reports changes of the table of mounts. The second of two calls reports the changes between them.
class MountEvents {
 public:
  explicit MountEvents(kj::UnixEventPort& port);
  kj::Promise<void> next();

 private:
  kj::AutoCloseFd table;
  kj::Own<kj::UnixEventPort::FdObserver> observer;
  kj::Maybe<kj::ForkedPromise<void>> changed;  // pending since the last call
};

kj::Own<Controller> discoveredVolumesOf(kj::UnixEventPort& port, kj::Timer& timer,
                                        Volumes& volumes);
kj::Own<Controller> disksOf(kj::UnixEventPort& port, kj::Timer& timer, UvLoop& uv);
kj::Own<Controller> volumeControllerOf(kj::UnixEventPort& port, kj::Timer& timer,
                                       VolumeController::Work work);
kj::Own<Controller> mountStatusOf(kj::UnixEventPort& port, kj::Timer& timer, UvLoop& uv);

}  // namespace talos::machined
