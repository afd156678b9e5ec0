// Tasks that load, check and save the machine config, and recall the facts of the platform.
#include "machined/boot/tasks/task.h"
#include "machined/config/config-manager.h"
#include "machined/config/controllers/platform-facts-file.h"

namespace talos::machined::tasks {
namespace {

// The tasks of the config manager (machined/config/config-manager.h). loadConfig (initialize,
// config): waits until a valid config is published, however long that takes. validateConfig and
// saveConfig (boot, phases of their names): check the config for this machine, and write it to its
// disk. clearConfigSource (boot): removes the config from a source that every process can read.

kj::Promise<void> load(ConfigManager& config) {
  return config.load();
}
kj::Promise<void> validate(ConfigManager& config) {
  return config.validate();
}
kj::Promise<void> save(ConfigManager& config) {
  return config.save();
}
kj::Promise<void> clearSource(ConfigManager& config) {
  return config.clearSource();
}

// recallPlatform (initialize, platform): after STATE may have been mounted, uses the facts that the
// platform gave at an earlier boot until the platform gives them again.

kj::Promise<void> recall(PlatformFactsFile& file) {
  return file.stateMayBeMounted();
}

}  // namespace

extern const BootTask loadConfig = task<load>("loadConfig");
extern const BootTask validateConfig = task<validate>("validateConfig");
extern const BootTask saveConfig = task<save>("saveConfig");
extern const BootTask clearConfigSource = task<clearSource>("clearConfigSource");

extern const BootTask recallPlatform = task<recall>("recallPlatform");

}  // namespace talos::machined::tasks
