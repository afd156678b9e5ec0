// The controllers that publish the machine's readings (rpc/hardware-resources.capnp):
//
// * hardware.SensorsController: temperatures, fans and errors of memory, each minute.
// * hardware.DiskHealthController: the health of disks, each ten minutes and when disks come or go.
//
// A reading that cannot be made any more is removed, so that no old one passes for the present; a
// disk that does not answer within kReadingDeadline has the health "unknown". A disk that hangs
// blocks one thread of `pool`, whose client it is, and none of the other disks' answers; a chip
// that hangs, all sensors. Nothing is kept: after a crash the next brain reads again. Not for a
// container, whose hardware is its host's.
#pragma once

#include "machined/hardware/disk-requests.h"
#include "machined/process1/read-pool.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr auto kSensorInterval = 1 * kj::MINUTES;
constexpr auto kDiskHealthInterval = 10 * kj::MINUTES;
// Less than kReconcileDeadline, which would leave the old readings.
constexpr auto kReadingDeadline = 90 * kj::SECONDS;

kj::Own<Controller> sensorsController(kj::Timer& timer, ReadPool& pool, kj::StringPtr sys = "/sys");
kj::Own<Controller> diskHealthController(kj::Timer& timer, ReadPool& pool,
                                         kj::Own<DiskRequests> requests,
                                         kj::StringPtr sys = "/sys");

}  // namespace talos::machined
