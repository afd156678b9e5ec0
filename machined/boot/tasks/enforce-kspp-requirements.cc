// enforceKSPPRequirements (initialize, systemRequirements): says which kernel parameters hardening
// lacks. The original stops here; a machine that stays up and says why is of more use.
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
