// reboot and shutdown (the last phases of the sequences of their names): process 1 stops
// everything. They do not return.
#include <linux/reboot.h>

#include "common/kernel/kernel-arguments.h"
#include "machined/boot/tasks/task.h"
#include "machined/logs/event-ring.h"
#include "machined/process1/process1.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> goDown(Events& events, Process1& process1, unsigned command) {
  events.publish([command](rpc::Event::Builder event) { event.setRestart(command); });
  return process1.reboot(command);
}

kj::Promise<void> restart(Events& events, Process1& process1) {
  return goDown(events, process1, LINUX_REBOOT_CMD_RESTART);
}
kj::Promise<void> powerOff(Events& events, Process1& process1, const KernelArguments& arguments) {
  bool halt = arguments.first("talos.shutdown").orDefault("") == "halt";
  return goDown(events, process1, halt ? LINUX_REBOOT_CMD_HALT : LINUX_REBOOT_CMD_POWER_OFF);
}

}  // namespace

extern const BootTask reboot = task<restart>("reboot");
extern const BootTask shutdown = task<powerOff>("shutdown");

}  // namespace talos::machined::tasks
