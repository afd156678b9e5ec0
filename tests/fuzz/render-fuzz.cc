// link: talosctl-commands
// The answers of a node in hostile hands, as talosctl prints them: any message, read as every kind
// of answer. What comes out is text that a terminal shows and does not interpret, of a bounded
// size.
#include <capnp/serialize.h>
#include <kj/debug.h>
#include <string.h>

#include "common/text/plain-text.h"
#include "common/wire/resource-registry.h"
#include "rpc/stream.capnp.h"
#include "talosctl/cli/table-look.h"
#include "talosctl/commands/render-answers.h"
#include "talosctl/views/dependency-graph.h"
#include "talosctl/views/link-tree.h"
#include "talosctl/views/resource-view.h"

namespace {

using namespace talos;
using namespace talos::talosctl;

constexpr size_t kTypesApart = 8;
constexpr uint64_t kNow = 1'615'000'000'000'000'000;
// Of what may be printed for a word that was received: a row of a table with its blanks.
constexpr size_t kMostPerWord = 4096, kMostAlways = 4u << 20;

// Not an exception, which would be taken for a refusal.
void must(bool holds) {
  if (!holds) __builtin_trap();
}

class HostileAnswer {
 public:
  explicit HostileAnswer(kj::ArrayPtr<const capnp::word> words) : words(words) {}

  // Anything may be thrown, and nothing else may happen.
  template <typename Type, typename F>
  void as(F&& print) const {
    (void)kj::runCatchingExceptions([&]() {
      // Each has a reader of its own: the limit is for one reading.
      capnp::FlatArrayMessageReader message(words, options());
      auto text = print(message.getRoot<Type>());
      mustBePlain(text);
      mustBePlain(dressed(text, {.columns = 80, .color = false}));
    });
  }
  // As a table of each node's answers, as YAML and as JSON.
  template <typename Type, typename F>
  void asAnswer(F&& render) const {
    as<Type>([&](auto value) {
      Reply<Type> replies[] = {{"10.0.0.2", value}, {"10.0.0.3", value}};
      return render(kj::arrayPtr(replies, 2));
    });
    // On a terminal a document goes through printableText(): $raw text is the node's own.
    as<Type>([](auto value) { return printableText(yamlAnswer("n", dynamic<Type>(value))); });
    as<Type>([](auto value) { return jsonAnswer("n", dynamic<Type>(value)); });
    as<Type>([](auto value) { return jsonLine("n", dynamic<Type>(value)); });
  }

 private:
  kj::ArrayPtr<const capnp::word> words;

  capnp::ReaderOptions options() const {
    return {.traversalLimitInWords = 4 * words.size() + 64, .nestingLimit = 64};
  }
  void mustBePlain(kj::StringPtr text) const {
    must(text.size() <= kMostAlways + kMostPerWord * words.size());
    auto rest = text.asBytes();
    while (rest.size() > 0) {
      auto character = firstCharacter(rest);
      must(character.plain || rest[0] == '\n' || rest[0] == '\t');
      rest = rest.slice(character.bytes, rest.size());
    }
  }
};

void readMachine(const HostileAnswer& answer) {
  using rpc::Machine;
  answer.asAnswer<rpc::Version>(renderServerVersions);
  answer.asAnswer<rpc::Status>(renderStatus);
  answer.asAnswer<Machine::MemoryResults>(renderMemory);
  answer.asAnswer<Machine::MemoryResults>(renderMemoryVerbose);
  answer.asAnswer<Machine::MountsResults>(renderMounts);
  answer.asAnswer<Machine::StatsResults>(renderStats);
  answer.asAnswer<Machine::TimeResults>(renderTimes);
  answer.asAnswer<Machine::ProcessesResults>(
      [](auto replies) { return renderProcesses(replies, SortBy::kCpu); });
  answer.asAnswer<Machine::NetstatResults>([](auto replies) {
    return renderSockets(replies, {.all = true, .extend = true, .programs = true});
  });
  answer.asAnswer<Machine::CgroupsResults>(
      [](auto replies) { return renderCgroups(replies, "memory"); });
  answer.as<Machine::DependenciesResults>(
      [](auto value) { return drawDependencies(value, nullptr); });
}

void readOthers(const HostileAnswer& answer) {
  answer.asAnswer<rpc::Containers::ListResults>(renderContainers);
  answer.asAnswer<rpc::Containers::StatsResults>(renderPodStats);
  answer.asAnswer<rpc::Containers::ImagesResults>(renderImages);
  answer.asAnswer<rpc::Network::InterfacesResults>(renderInterfaces);
  answer.asAnswer<rpc::Network::RoutesResults>(renderRoutes);
  answer.asAnswer<rpc::Storage::DisksResults>(renderDisks);
  answer.asAnswer<rpc::Storage::ReadMetaResults>(renderMeta);
  answer.asAnswer<rpc::Services::ListResults>(
      [](auto replies) { return renderServices(replies, kNow); });
  answer.as<rpc::Service>([](auto service) { return renderService("n", service, kNow); });
  answer.as<rpc::Event>([](auto event) {
    Table table({"NODE", "EVENT", "SOURCE", "MESSAGE", "ACTOR", "TIME", "MORE", "REST"});
    KJ_IF_MAYBE (row, eventRow("n", event)) table.row(kj::mv(*row));
    return table.render();
  });
  for (bool humanize : {false, true}) {
    answer.as<rpc::FileInfo>([humanize](auto file) {
      Table table({"NODE", "MODE", "UID", "GID", "SIZE(B)", "LASTMOD", "NAME"});
      table.row(fileRow("n", file, true, {.humanize = humanize, .now = kNow}));
      return table.render();
    });
  }
}

void readResources(const HostileAnswer& answer, size_t size) {
  // An eighth of the types in each run, or it would be most of the work.
  static const Registry registry;
  auto types = registry.types();
  for (size_t i = size / sizeof(capnp::word) % kTypesApart; i < types.size(); i += kTypesApart) {
    auto& type = types[i];
    answer.as<rpc::Resource>([&](auto resource) {
      auto table = resourceTable(type, true);
      table.row(resourceRow(type, "n", resource, true, ChangeKind::kCreated));
      return table.render();
    });
    answer.as<rpc::Resource>(
        [&](auto resource) { return printableText(resourceYaml(type, "n", resource)); });
    answer.as<rpc::Resource>([&](auto resource) { return resourceJson(type, "n", resource); });
  }
  answer.as<rpc::Resources::ListResults>([](auto list) {
    kj::Vector<DrawnLink> links;
    for (auto resource : list.getResources()) {
      links.add(DrawnLink{resource.getMetadata().getId(),
                          resource.getSpec().template getAs<rpc::LinkStatusSpec>()});
    }
    return drawLinks(links);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  memcpy(words.begin(), data, words.asBytes().size());
  HostileAnswer answer(words);
  readMachine(answer);
  readOthers(answer);
  readResources(answer, size);
  return 0;
}
