// raiseClock (initialize, systemRequirements): sets the clock at least to the time of this
// version's build, before any program reads the time or checks a certificate.
#include "common/base/date.h"
#include "common/base/version.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"
#include "machined/system/time/kernel-clock.h"

namespace talos::machined::tasks {
namespace {

void raiseToBuild(KernelClock& clock, Console& console) {
  KJ_IF_MAYBE (built, parseDate(buildVersion().built)) {
    KJ_IF_MAYBE (was, clock.raiseTo(*built)) {
      console.say(kj::str("the clock showed ", dateText(*was),
                          ", which is before this version was built; ", "setting it to ",
                          dateText(*built)));
    }
  }
}

}  // namespace

extern const BootTask raiseClock = task<raiseToBuild>("raiseClock");

}  // namespace talos::machined::tasks
