// setupLogger (initialize, logger): from here on what machined says is on the console.
#include "machined/boot/tasks/task.h"
#include "machined/logs/node-console.h"

namespace talos::machined::tasks {
namespace {

void openLog(Console& console) {
  console.open();
}

}  // namespace

extern const BootTask setupLogger = task<openLog>("setupLogger");

}  // namespace talos::machined::tasks
