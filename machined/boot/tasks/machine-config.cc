// The machine config, all of it the keeper's (machined/config/config-manager.h). loadConfig
// (initialize, config): a good one is published, however long that takes. validateConfig and
// saveConfig (boot, phases of their names): it is good for this machine, and on its disk.
#include "machined/boot/tasks/task.h"
#include "machined/config/config-manager.h"

namespace talos::machined::tasks {
namespace {

kj::Promise<void> load(ConfigKeeper& config) {
  return config.load();
}
kj::Promise<void> validate(ConfigKeeper& config) {
  return config.validate();
}
kj::Promise<void> save(ConfigKeeper& config) {
  return config.save();
}

}  // namespace

extern const BootTask loadConfig = task<load>("loadConfig");
extern const BootTask validateConfig = task<validate>("validateConfig");
extern const BootTask saveConfig = task<save>("saveConfig");

}  // namespace talos::machined::tasks
