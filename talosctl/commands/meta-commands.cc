// meta read, write, delete
#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using rpc::Storage;

constexpr size_t kMostInput = 1 << 20;  // size of the whole partition

uint32_t keyOf(kj::StringPtr text) {
  KJ_IF_MAYBE (key, text.tryParseAs<uint32_t>()) {
    if (*key != 0) return *key;
  }
  failUsage(kj::str("\"", text,
                    "\" is not a valid key; use a number from 1 to 4294967295, decimal or 0x..."));
}

Storage::Client storageOf(rpc::Node::Client node) {
  return node.storageRequest().send().getStorage();
}

kj::Promise<int> runMetaRead(Invocation& call) {
  uint32_t key = call.arguments.size() > 0 ? keyOf(call.arguments[0]) : 0;
  return tabulate<Storage::ReadMetaResults>(
      call,
      [key](rpc::Node::Client node) {
        auto request = storageOf(kj::mv(node)).readMetaRequest();
        request.setKey(key);
        return request.send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Storage::ReadMetaResults>> replies) {
        return renderMeta(replies);
      });
}

kj::Promise<int> runMetaWrite(Invocation& call) {
  uint32_t key = keyOf(call.arguments[0]);
  kj::StringPtr given = call.arguments[1];
  auto value = given == "-" ? co_await readInput(call.deps, kMostInput) : kj::str(given);
  KJ_DEFER(zeroize(value.asArray()));
  call.done = kj::str("wrote the value of key ", key);
  co_return co_await silently<Storage::WriteMetaResults>(
      call, [key, &value](rpc::Node::Client node) {
        auto request = storageOf(kj::mv(node)).writeMetaRequest();
        request.setKey(key);
        request.setValue(value.asBytes());
        return request.send();
      });
}

kj::Promise<int> runMetaDelete(Invocation& call) {
  uint32_t key = keyOf(call.arguments[0]);
  call.done = kj::str("deleted the value of key ", key);
  return silently<Storage::DeleteMetaResults>(call, [key](rpc::Node::Client node) {
    auto request = storageOf(kj::mv(node)).deleteMetaRequest();
    request.setKey(key);
    return request.send();
  });
}

}  // namespace

kj::String renderMeta(kj::ArrayPtr<const Reply<Storage::ReadMetaResults>> replies) {
  Table table({"NODE", "KEY", "VALUE"});
  for (auto& r : replies) {
    for (auto v : r.value.getValues()) {
      table.add(r.node, v.getKey(), kj::heapString(v.getValue().asChars()));
    }
  }
  return table.render();
}

void addMetaCommands(Command& root) {
  auto& meta = root.add("meta", "Read, write and delete values of the partition META");
  auto& read = meta.add("read", "Show the values of the partition META, or one of them");
  read.arguments = "[<key>]";
  read.most = 1;
  read.details = "-o json and -o yaml have the values in base64.";
  addOutputFlag(read);
  read.run = runMetaRead;

  auto& write = meta.add("write", "Set a value of the partition META");
  write.arguments = "<key> <value>";
  write.least = write.most = 2;
  write.details = "The key is a number, decimal or 0x...; the value \"-\" reads standard input.";
  addOutputFlag(write);
  write.run = runMetaWrite;

  auto& remove = meta.add("delete", "Delete a value of the partition META");
  remove.arguments = "<key>";
  remove.least = remove.most = 1;
  addOutputFlag(remove);
  remove.run = runMetaDelete;
}

}  // namespace talos::talosctl
