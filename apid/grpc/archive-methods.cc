// The methods Copy and Kubeconfig, which answer with archives.
#include "apid/grpc/answer-output.h"
#include "apid/grpc/method-table.h"
#include "common/grpc-messages/request-fields.h"
#include "common/kube/received-kubeconfig.h"
#include "common/tar/tar-writer.h"

namespace talos::grpcapi {
namespace {

constexpr size_t kChunk = 64u << 10;

kj::Array<kj::byte> chunkMessage(Bytes chunk) {
  WireWriter out;
  out.bytes(2, chunk);
  return out.finish();
}

class ByteServer final : public rpc::ByteSink::Server {
 public:
  explicit ByteServer(kj::Own<LentOutput> to) : to(kj::mv(to)) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    auto bytes = context.getParams().getBytes();
    if (bytes.size() == 0) return kj::READY_NOW;
    auto charge = to->charge(context.getParams().totalSize());
    return to->send(chunkMessage(bytes)).attach(kj::mv(charge));
  }

 private:
  kj::Own<LentOutput> to;
};

// Reports unreadable files as an error after the archive of all others.
class Copy final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes message, Output& output) const override {
    auto lent = kj::refcounted<LentOutput>(output);
    KJ_DEFER(lent->end());
    auto request = node.filesRequest().send().getFiles().copyRequest();
    request.setPath(RequestFields(message).text(1));
    rpc::ByteSink::Client mine = kj::heap<ByteServer>(kj::addRef(*lent));
    request.setSink(mine);
    auto response = co_await request.send();
    co_await mine.writeRequest().send();  // after the writes in progress
    auto unreadable = response.getUnreadable();
    if (unreadable.size() == 0) co_return;
    co_await output.sendProblem(error(
        ErrorKind::kInternal, kj::str("files that cannot be read are missing in the archive: ",
                                      kj::strArray(unreadable, ", "))));
  }
};

// Rebuilds the kubeconfig, because the node may be in foreign hands and kubectl runs the programs
// that a kubeconfig names: the client gets a text made of the required content
// (common/kube/received-kubeconfig.h).
class Kubeconfig final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes, Output& output) const override {
    auto machine = node.machineRequest().send().getMachine();
    auto archive =
        archiveOf(checked(co_await machine.kubeconfigRequest().send(), output.nodeName()));
    auto charge = output.charge({archive.size() / sizeof(capnp::word), 0});
    for (size_t at = 0; at < archive.size(); at += kChunk) {
      auto end = kj::min(at + kChunk, archive.size());
      co_await output.send(chunkMessage(archive.asPtr().slice(at, end)));
    }
  }

 private:
  // Limit of the text, which is read at once: twenty times the usual size.
  static constexpr size_t kMostKubeconfig = 128u << 10;

  static pki::Pem checked(const capnp::Response<rpc::Machine::KubeconfigResults>& response,
                          kj::StringPtr node) {
    auto received = response.getKubeconfig().asChars();
    if (received.size() > kMostKubeconfig) {
      fail(ErrorKind::kResourceExhausted,
           kj::str(node, ": the kubeconfig has ", received.size(), " bytes; at most ",
                   kMostKubeconfig, " are read"));
    }
    pki::Pem result, text(kj::heapString(received));
    auto read = [&]() {
      result = kube::readReceivedKubeconfig(text, "the kubeconfig from this node").text();
    };
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(read)) {
      fail(ErrorKind::kInternal, kj::str(node, ": ", messageOf(*e)));
    }
    return result;
  }

  static kj::Vector<kj::byte> archiveOf(const pki::Pem& checked) {
    auto kubeconfig = kj::StringPtr(checked).asBytes();
    kj::Vector<kj::byte> tar, archive;
    appendTarHeader(tar, {.name = "kubeconfig", .mode = 0600, .size = kubeconfig.size()});
    tar.addAll(kubeconfig);
    tar.addAll(kj::repeat(kj::byte(0), tarPadding(kubeconfig.size()) + kTarEnd));
    Gzip gzip;
    gzip.write(tar, archive);
    gzip.finish(archive);
    return archive;
  }
};

}  // namespace

void addTransfers(kj::Vector<Entry>& all) {
  all.add(Entry{"/machine.MachineService/Copy", Answer::kItems, kj::heap<Copy>()});
  all.add(Entry{"/machine.MachineService/Kubeconfig", Answer::kItems, kj::heap<Kubeconfig>()});
}

}  // namespace talos::grpcapi
