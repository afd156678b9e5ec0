// The controllers that publish the machine's readings (rpc/hardware-resources.capnp):
//
// * hardware.SensorsController: temperatures, fans and errors of memory, each minute.
// * hardware.DiskHealthController: the health of disks, each ten minutes and when disks come or go.
//
// A reading that cannot be made any more is removed, so that no old one passes for the present. A
// chip or a disk that hangs blocks a thread of `pool`, which is bounded, and makes that controller
// fail and retry. Nothing is kept: after a crash the next brain reads again. Not for a container,
// whose hardware is its host's.
#pragma once

#include "machined/hardware/disk-requests.h"
#include "machined/process1/read-pool.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr auto kSensorInterval = 1 * kj::MINUTES;
constexpr auto kDiskHealthInterval = 10 * kj::MINUTES;

kj::Own<Controller> sensorsController(kj::Timer& timer, ReadPool& pool, kj::StringPtr sys = "/sys");
kj::Own<Controller> diskHealthController(kj::Timer& timer, ReadPool& pool,
                                         kj::Own<DiskRequests> requests,
                                         kj::StringPtr sys = "/sys");

}  // namespace talos::machined
