// recallPlatform (initialize, platform): after STATE may have been mounted, uses the facts that the
// platform gave at an earlier boot until the platform gives them again.
#include "machined/boot/tasks/task.h"
#include "machined/config/controllers/platform-facts-file.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> recall(PlatformFactsFile& file) {
  return file.stateMayBeMounted();
}

}  // namespace

extern const BootTask recallPlatform = task<recall>("recallPlatform");

}  // namespace talos::machined::tasks
