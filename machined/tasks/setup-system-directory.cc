// setupSystemDirectory (initialize, systemRequirements): /system and what is in it.
#include "machined/system/etc-files.h"
#include "machined/tasks/task.h"

namespace talos::machined::tasks {
namespace {

void makeSystemFolders() {
  machined::setupSystemDirectory("");
}

}  // namespace

extern const BootTask setupSystemDirectory = task<makeSystemFolders>("setupSystemDirectory");

}  // namespace talos::machined::tasks
