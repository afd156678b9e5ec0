// setRLimit (initialize, systemRequirements): how many files machined and the services may open.
#include "machined/boot/tasks/task.h"
#include "machined/system/kernel-parameters.h"

namespace talos::machined::tasks {

extern const BootTask setRLimit = task<raiseFileLimit>("setRLimit");

}  // namespace talos::machined::tasks
