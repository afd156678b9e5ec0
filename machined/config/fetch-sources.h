// The sources of machined/tasks/fetch.h: the kernel parameter talos.config with http.
#pragma once

#include "machined/config/sources.h"
#include "machined/tasks/fetch.h"

namespace talos::machined {

class FetchSources final : public ConfigSources {
 public:
  FetchSources(const KernelArguments& arguments, kj::String uuid, FetchWorld world)
      : arguments(arguments), uuid(kj::mv(uuid)), world(kj::mv(world)) {}

  kj::Promise<kj::Maybe<FoundConfig>> find(kj::Duration limit) override {
    KJ_IF_MAYBE (source, configSource(arguments, uuid)) {
      auto shown = kj::str(source->shown);
      auto text = co_await fetchConfig(world, kj::mv(*source), limit);
      co_return FoundConfig{kj::mv(text), kj::mv(shown)};
    }
    co_return nullptr;
  }

 private:
  const KernelArguments& arguments;
  kj::String uuid;
  FetchWorld world;
};

}  // namespace talos::machined
