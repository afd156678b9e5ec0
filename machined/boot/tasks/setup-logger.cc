// setupLogger (initialize, logger): from then on machined's messages are on the console.
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
