// enforceKSPPRequirements (initialize, systemRequirements): warns of missing kernel parameters of
// the Kernel Self Protection Project. Talos 0.9 stops here; a machine that stays up and warns is
// more useful.
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"
#include "machined/system/kernel-parameters.h"

namespace talos::machined::tasks {
namespace {

void warnOfMissing(const KernelArguments& arguments, Console& console) {
  for (auto& line : missingKsppParameters(arguments)) console.say(kj::str("warning: ", line));
}

}  // namespace

extern const BootTask enforceKSPPRequirements = task<warnOfMissing>("enforceKSPPRequirements");

}  // namespace talos::machined::tasks
