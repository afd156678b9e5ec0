#include "tests/day/registers/register-clients.h"

#include <kj/async-io.h>
#include <kj/debug.h>

#include <chrono>

#include "common/etcd/etcd-client.h"
#include "tests/harness/draw.h"

namespace talos::day {
namespace {

using harness::Draw;

constexpr unsigned kCallsOfAConnection = 25;

int64_t nanoseconds() {
  return (kj::systemPreciseMonotonicClock().now() - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
}

// A connection to a member, of one thread.
class Connection {
 public:
  Connection(kj::AsyncIoContext& io, const Member& member, kj::Duration call)
      : credentials(member.credentials()),
        etcd(*io.lowLevelProvider, io.provider->getTimer(), credentials, member.endpoint,
             {.call = call, .silence = 2 * call}) {}

  TlsEndpoint credentials;
  etcd::EtcdClient etcd;
};

std::string onceOf(unsigned epoch) {
  return RegisterClients::kOnce + std::to_string(epoch) + "/";
}

kj::String bytes(const std::string& text) {
  return kj::heapString(text.data(), text.size());
}

// Fills in the revision, and of a read what was read.
void readKey(kj::WaitScope& scope, etcd::Etcd& etcd, const std::string& key, Call& call) {
  auto answer = etcd.range({.keys = {bytes(key)}}).wait(scope);
  call.revision = answer.revision;
  if (answer.kvs.size() == 0) return;
  call.value = answer.kvs[0].value.cStr();
  call.modified = answer.kvs[0].modRevision;
}

void writeKey(kj::WaitScope& scope, etcd::Etcd& etcd, const std::string& key, Call& call) {
  call.revision = etcd.put({.key = bytes(key), .value = bytes(call.value)}).wait(scope).revision;
}

// Returns false if the key has another value than `expected`, with what it has in `found`.
bool swapKey(kj::WaitScope& scope, etcd::Etcd& etcd, const std::string& key, Call& call,
             Call& found) {
  etcd::Txn txn;
  txn.compare = kj::arr(etcd::Compare::valued(bytes(key), bytes(call.expected)));
  txn.then = kj::arr(etcd::Operation(etcd::Put{.key = bytes(key), .value = bytes(call.value)}));
  txn.otherwise = kj::arr(etcd::Operation(etcd::Range{.keys = {bytes(key)}}));
  auto answer = etcd.txn(kj::mv(txn)).wait(scope);
  call.revision = found.revision = answer.revision;
  if (answer.succeeded) return true;
  auto& range = answer.results[0].get<etcd::RangeResult>();
  if (range.kvs.size() > 0) {
    found.value = range.kvs[0].value.cStr();
    found.modified = range.kvs[0].modRevision;
  }
  return false;
}

}  // namespace

struct RegisterClients::Client {
  Client(RegisterClients& all, unsigned number)
      : all(all),
        number(number),
        draw(all.seed, number),
        thread([this](const std::stop_token& over) { run(over); }) {}

  RegisterClients& all;
  unsigned number;  // of the client and its member
  Draw draw;
  std::atomic<unsigned> answers = 0, failures = 0;
  unsigned written = 0, epoch = 0;
  std::map<std::string, std::string> known;  // values that this client has seen
  std::jthread thread;

  void run(const std::stop_token& over) {
    all.enter();
    auto io = kj::setupAsyncIo();
    kj::Own<Connection> connection;
    for (unsigned used = 0; !over.stop_requested(); ++used) {
      if (used % kCallsOfAConnection == 0) connection = nullptr;
      auto failure = kj::runCatchingExceptions([&] {
        if (connection.get() == nullptr) {
          connection = kj::heap<Connection>(io, all.members[number], all.pace.call);
        }
        step(io.waitScope, connection->etcd);
        ++answers;
      });
      if (failure != nullptr) {
        ++failures;
        connection = nullptr;
        used = 0;
      }
      std::this_thread::sleep_for(all.pace.between * (failure == nullptr ? 1 : 2));
    }
  }

  void step(kj::WaitScope& scope, etcd::Etcd& etcd) {
    auto value = std::to_string(number) + "." + std::to_string(++written);
    beginEpoch();
    if (draw.chance(20)) {
      auto key = onceOf(epoch) + value;
      etcd.put({.key = bytes(key), .value = bytes(value)}).wait(scope);
      std::lock_guard lock(all.mutex);
      all.acknowledged[epoch].insert(key);
      ++all.counted.once;
      return;
    }
    auto key = kRegisters + std::to_string(epoch) + "." + std::to_string(draw.number(1, all.keys));
    auto kind = draw.number(1, 10);
    Call call{.client = number, .what = Call::What::kRead};
    call.begin = nanoseconds();
    if (kind <= 5) {
      readKey(scope, etcd, key, call);
      add(key, call);
      known[key] = call.value;
      return;
    }
    call.value = value;
    call.what = kind <= 8 || known[key].empty() ? Call::What::kWrite : Call::What::kSwap;
    if (call.what == Call::What::kSwap) call.expected = known[key];
    call.outcome = Call::Outcome::kUnknown;
    write(scope, etcd, key, call);
  }

  // Records the call before it is made, so that a reader of the history knows its value.
  void write(kj::WaitScope& scope, etcd::Etcd& etcd, const std::string& key, Call call) {
    auto place = add(key, call);
    if (call.what == Call::What::kWrite) {
      writeKey(scope, etcd, key, call);
    } else {
      Call found{.client = number, .what = Call::What::kRead, .begin = call.begin};
      if (!swapKey(scope, etcd, key, call, found)) {
        call.outcome = Call::Outcome::kRefused;
        add(key, found);
        known[key] = found.value;
        replace(key, place, call);
        return;
      }
    }
    call.outcome = Call::Outcome::kDone;
    known[key] = call.value;
    replace(key, place, call);
  }

  void beginEpoch() {
    std::lock_guard lock(all.mutex);
    if (epoch != all.epoch) known.clear();
    epoch = all.epoch;
  }
  size_t add(const std::string& key, Call call) {
    call.end = nanoseconds();
    std::lock_guard lock(all.mutex);
    auto& calls = all.calls[epoch][key];
    calls.push_back(std::move(call));
    ++all.counted.calls;
    return calls.size() - 1;
  }
  // A call that lasted through two calls of forget() is forgotten.
  void replace(const std::string& key, size_t place, Call call) {
    call.end = nanoseconds();
    std::lock_guard lock(all.mutex);
    if (all.calls.contains(epoch)) all.calls[epoch][key][place] = std::move(call);
  }
};

RegisterClients::RegisterClients(std::vector<Member> members, std::function<void()> enter,
                                 unsigned keys, uint64_t seed, Pace pace)
    : members(std::move(members)), enter(std::move(enter)), keys(keys), seed(seed), pace(pace) {
  for (unsigned i = 0; i < this->members.size(); ++i) {
    clients.push_back(std::make_unique<Client>(*this, i));
  }
}

RegisterClients::~RegisterClients() noexcept {
  for (auto& client : clients) client->thread.request_stop();
  clients.clear();
}

History RegisterClients::history() const {
  std::lock_guard lock(mutex);
  History all;
  for (auto& [number, history] : calls) all.insert(history.begin(), history.end());
  return all;
}

std::set<std::string> RegisterClients::answered() const {
  std::lock_guard lock(mutex);
  std::set<std::string> all;
  for (auto& [number, keys] : acknowledged) all.insert(keys.begin(), keys.end());
  return all;
}

void RegisterClients::forget() {
  std::lock_guard lock(mutex);
  std::erase_if(calls, [&](auto& each) { return each.first < epoch; });
  std::erase_if(acknowledged, [&](auto& each) {
    bool isOld = each.first < epoch;
    if (isOld) counted.forgotten += each.second.size();
    return isOld;
  });
  ++epoch;
}

RegisterClients::Totals RegisterClients::totals() const {
  std::lock_guard lock(mutex);
  return counted;
}

unsigned RegisterClients::answers(unsigned member) const {
  return clients[member]->answers;
}

unsigned RegisterClients::failures(unsigned member) const {
  return clients[member]->failures;
}

RegisterClients::Present RegisterClients::present(unsigned member) const {
  std::unique_lock lock(mutex);
  auto last = epoch;
  lock.unlock();
  Present found;
  // Another thread has a separate event loop.
  std::exception_ptr failure;
  std::thread([&] {
    try {
      enter();
      auto io = kj::setupAsyncIo();
      Connection connection(io, members[member], pace.call);
      auto read = [&](const std::string& prefix, bool countOnly) {
        return connection.etcd
            .range({.keys = {bytes(prefix), true}, .keysOnly = true, .countOnly = countOnly})
            .wait(io.waitScope);
      };
      for (auto number = last == 0 ? 0 : last - 1; number <= last; ++number) {
        auto answer = read(onceOf(number), false);
        for (auto& each : answer.kvs) found.keys.insert(each.key.cStr());
      }
      found.count = static_cast<size_t>(read(kOnce, true).count);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return found;
}

}  // namespace talos::day
