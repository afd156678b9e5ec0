// The tasks of the config manager (machined/config/config-manager.h). loadConfig (initialize,
// config): waits until a valid config is published, however long that takes. validateConfig and
// saveConfig (boot, phases of their names): check the config for this machine, and write it to its
// disk. clearConfigSource (boot): removes the config from a source that every process can read.
#include "machined/boot/tasks/task.h"
#include "machined/config/config-manager.h"

namespace talos::machined::tasks {
namespace {

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

}  // namespace

extern const BootTask loadConfig = task<load>("loadConfig");
extern const BootTask validateConfig = task<validate>("validateConfig");
extern const BootTask saveConfig = task<save>("saveConfig");
extern const BootTask clearConfigSource = task<clearSource>("clearConfigSource");

}  // namespace talos::machined::tasks
