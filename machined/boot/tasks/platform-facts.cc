// recallPlatform (initialize, platform): when STATE may have been mounted, the facts that the
// platform gave at an earlier boot are used until it gives them again.
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
