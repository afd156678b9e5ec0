// writeRequiredSysctls and, in containers, writeRequiredSysctlsForContainer (initialize,
// systemRequirements): the settings of hardening and those that a Kubernetes node needs.
#include "machined/system/kernel-parameters.h"
#include "machined/tasks/task.h"
#include "machined/telemetry/node-console.h"

namespace talos::machined::tasks {
namespace {

template <bool kContainer>
void writeRequired(Console& console) {
  for (auto& key : writeSysctls("/proc/sys", requiredSysctls(kContainer))) {
    console.say(kj::str("warning: the kernel has no parameter ", key));
  }
}

}  // namespace

extern const BootTask writeRequiredSysctls = task<writeRequired<false>>("writeRequiredSysctls");
extern const BootTask writeRequiredSysctlsForContainer =
    task<writeRequired<true>>("writeRequiredSysctlsForContainer");

}  // namespace talos::machined::tasks
