#include "machined/brain/brain-core.h"

namespace talos::machined {

void BrainCore::publishStatus() {
  controllers.poke("runtime.MachineStatusController");
}

void BrainCore::renewApiCertificate() {
  controllers.poke("secrets.ApiController");
}

BrainCore::Print BrainCore::printInfo() {
  return [this](kj::StringPtr line) { console.say(line); };
}

BrainCore::Print BrainCore::printAlarms() {
  return [this](kj::StringPtr line) { console.say(line, Tone::kAlarm); };
}

BrainCore::Print BrainCore::printWithAlarms(kj::StringPtr prefix) {
  return [this, prefix](kj::StringPtr line) {
    console.say(line, line.startsWith(prefix) ? Tone::kAlarm : Tone::kInfo);
  };
}

kj::Function<kj::Promise<void>(kj::Function<void()> work)> BrainCore::blocking() {
  return [this](kj::Function<void()> work) { return uv.blocking(kj::mv(work)); };
}

}  // namespace talos::machined
