#include "machined/brain/chosen-daemons.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kArgument = "talos.debug.services"_kj;

kj::Maybe<const Daemon&> find(kj::ArrayPtr<const Daemon> table, kj::ArrayPtr<const char> id) {
  for (auto& daemon : table) {
    if (daemon.id.asArray() == id) return daemon;
  }
  return nullptr;
}

}  // namespace

kj::Maybe<std::set<kj::StringPtr>> chosenDaemons(const KernelArguments& arguments,
                                                 kj::ArrayPtr<const Daemon> table,
                                                 kj::FunctionParam<void(kj::StringPtr)> warn) {
  auto values = arguments.all(kArgument);
  if (values.empty()) return nullptr;
  std::set<kj::StringPtr> chosen;
  auto choose = [&](kj::ArrayPtr<const char> name) {
    kj::Maybe<const Daemon&> next = find(table, name);
    if (next == nullptr) {
      auto ids = kj::strArray(KJ_MAP(daemon, table) { return daemon.id; }, ", ");
      warn(kj::str(kArgument, ": no service is named \"", name, "\"; use one of ", ids));
    }
    while (next != nullptr) {
      auto& daemon = KJ_ASSERT_NONNULL(next);
      chosen.insert(daemon.id);
      // etcd starts when the supervisor has decided how it runs.
      if (daemon.id == kEtcdService) chosen.insert("etcd-supervisor"_kj);
      next = nullptr;
      if (daemon.after != nullptr) next = find(table, daemon.after);
    }
  };
  for (auto value : values) {
    kj::ArrayPtr<const char> rest = value;
    while (rest.size() > 0) {
      size_t end = 0;
      while (end < rest.size() && rest[end] != ',') ++end;
      if (end > 0) choose(rest.slice(0, end));
      rest = rest.slice(kj::min(end + 1, rest.size()), rest.size());
    }
  }
  return kj::mv(chosen);
}

}  // namespace talos::machined
