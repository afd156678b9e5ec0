// writeRequiredSysctls and, in containers, writeRequiredSysctlsForContainer (initialize,
// systemRequirements): writes sysctls of hardening and those that a Kubernetes node needs.
#include "common/base/error.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"
#include "machined/system/kernel-parameters.h"

namespace talos::machined::tasks {
namespace {

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

}  // namespace

extern const BootTask writeRequiredSysctls = task<writeRequired<false>>("writeRequiredSysctls");
extern const BootTask writeRequiredSysctlsForContainer =
    task<writeRequired<true>>("writeRequiredSysctlsForContainer");

}  // namespace talos::machined::tasks
