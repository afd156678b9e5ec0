// Controllers that publish the machine's readings (rpc/hardware-resources.capnp):
//
// * hardware.SensorsController: temperatures, fans and errors of memory, each minute.
// * hardware.DiskHealthController: the health of disks, each ten minutes and when disks come or go.
//
// A reading that can no longer be made is removed, so that an old reading is not taken for a
// current one; a disk that does not answer within kReadingDeadline has the health "unknown". A disk
// that hangs blocks one thread of `pool`, of which it is a client, and no answers of other disks; a
// chip that hangs blocks all sensors. Keeps no state: after a crash the next brain reads again. Not
// used in a container, whose hardware belongs to its host.
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
