// stopNetworkd (reboot and shutdown, cleanup) and stopAllServices (the same, stopEverything). What
// does not end here is ended by process 1: nothing may keep the machine from going down.
#include "common/base/error.h"
#include "machined/services/supervisor.h"
#include "machined/tasks/task.h"
#include "machined/telemetry/node-console.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> warnOnly(Console& console, kj::Promise<void> promise) {
  return promise.catch_(
      [&console](kj::Exception&& e) { console.say(kj::str("warning: ", messageOf(e))); });
}

kj::Promise<void> stopOne(Supervisor& supervisor, Console& console) {
  return warnOnly(console, supervisor.stop("networkd"));
}
kj::Promise<void> stopAll(Supervisor& supervisor, Console& console) {
  return warnOnly(console, supervisor.stopAll());
}

}  // namespace

extern const BootTask stopNetworkd = task<stopOne>("stopNetworkd");
extern const BootTask stopAllServices = task<stopAll>("stopAllServices");

}  // namespace talos::machined::tasks
