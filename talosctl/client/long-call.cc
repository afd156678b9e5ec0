#include "talosctl/client/long-call.h"

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

constexpr auto kBetweenQuestions = 5 * kj::SECONDS, kQuestion = 8 * kj::SECONDS;
constexpr unsigned kMost = 3;  // unanswered requests in a row

}  // namespace

kj::Promise<void> untilSilent(kj::Timer& timer, rpc::Node::Client node) {
  for (unsigned unanswered = 0; unanswered < kMost;) {
    co_await timer.afterDelay(kBetweenQuestions);
    auto version = node.machineRequest().send().getMachine().versionRequest();
    kj::Promise<void> answer = version.send().ignoreResult();
    try {
      co_await within(timer, kQuestion, kj::mv(answer));
      unanswered = 0;
    } catch (const kj::Exception& e) {
      // A refusal is an answer. The end of the connection also ends the call.
      unanswered = kindOf(e) == ErrorKind::kDeadlineExceeded ? unanswered + 1 : 0;
    }
  }
  fail(ErrorKind::kDeadlineExceeded,
       kj::str("no answer for ", durationText(kMost * (kBetweenQuestions + kQuestion)),
               "; a node that has accepted the request continues"));
}

}  // namespace talos::talosctl
