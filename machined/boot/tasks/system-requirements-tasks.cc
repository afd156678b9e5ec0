// Tasks of the first phases of initialize (logger, systemRequirements): the console, the clock,
// sysctls and limits of the kernel, and the folders of the system.
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/base/version.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"
#include "machined/system/etc-files.h"
#include "machined/system/kernel-parameters.h"
#include "machined/system/time/kernel-clock.h"

namespace talos::machined::tasks {
namespace {

// setupLogger (initialize, logger): from then on machined's messages are on the console.

void openLog(Console& console) {
  console.open();
}

// raiseClock (initialize, systemRequirements): sets the clock at least to the time of this
// version's build, before any program reads the time or checks a certificate.

void raiseToBuild(KernelClock& clock, Console& console) {
  KJ_IF_MAYBE (built, parseDate(buildVersion().built)) {
    KJ_IF_MAYBE (was, clock.raiseTo(*built)) {
      console.say(kj::str("the clock showed ", dateText(*was),
                          ", which is before this version was built; ", "setting it to ",
                          dateText(*built)));
    }
  }
}

// enforceKSPPRequirements (initialize, systemRequirements): warns of missing kernel parameters of
// the Kernel Self Protection Project. Talos 0.9 stops here; a machine that stays up and warns is
// more useful.

void warnOfMissing(const KernelArguments& arguments, Console& console) {
  for (auto& line : missingKsppParameters(arguments)) console.say(kj::str("warning: ", line));
}

// writeRequiredSysctls and, in containers, writeRequiredSysctlsForContainer (initialize,
// systemRequirements): writes sysctls of hardening and those that a Kubernetes node needs.

// Fails the boot if the kernel refuses a sysctl, because the machine is not hardened as expected.
// In a container it only warns: the launcher may have made sysctls read-only, whether it has set
// them or not.
template <bool kContainer>
void writeRequired(Console& console) {
  acceptRouterAdvertisements("/proc/sys");  // before forwarding, which drops their routes
  auto result = writeSysctls("/proc/sys", requiredSysctls(kContainer));
  for (auto& key : result.absent) {
    console.say(kj::str("warning: the kernel has no parameter ", key));
  }
  auto refused = kj::strArray(result.refused, "; ");
  if (refused.size() == 0) return;
  auto text = kj::str("cannot set kernel parameters: ", refused);
  if (!kContainer) fail(ErrorKind::kInternal, text);
  console.say(kj::str("warning: ", text));
}

// setupSystemDirectory (initialize, systemRequirements): makes /system and its folders, and the
// folder of the bus, which only the bus's servers and root may enter.

void makeSystemFolders() {
  machined::setupSystemDirectory("");
  makeDirectories(kBusFolder, 0700);
  KJ_SYSCALL(chown(kBusFolder.cStr(), kLogin1Uid, kLogin1Uid));
}

}  // namespace

extern const BootTask setupLogger = task<openLog>("setupLogger");

extern const BootTask raiseClock = task<raiseToBuild>("raiseClock");

extern const BootTask enforceKSPPRequirements = task<warnOfMissing>("enforceKSPPRequirements");

extern const BootTask writeRequiredSysctls = task<writeRequired<false>>("writeRequiredSysctls");
extern const BootTask writeRequiredSysctlsForContainer =
    task<writeRequired<true>>("writeRequiredSysctlsForContainer");

extern const BootTask setupSystemDirectory = task<makeSystemFolders>("setupSystemDirectory");

// Limits how many files machined and the services may open (initialize, systemRequirements).
extern const BootTask setRLimit = task<raiseFileLimit>("setRLimit");

}  // namespace talos::machined::tasks
