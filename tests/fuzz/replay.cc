// Without libFuzzer, `fuzz NAME` gives the target every file of the corpus folders, and as many
// changed ones as -runs=N says. The changes are drawn from a fixed seed, so a failing run fails
// again. It does not measure the coverage of the code: it only catches breakage by an edit, with
// the flags of all other code. `make soak` searches, with coverage and sanitizers.
//
//   fuzz NAME [-runs=N] FOLDER...
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;
using Draw = std::mt19937_64;

// Values that parsers stumble over: ends of ranges; quotes, brackets and separators.
constexpr uint8_t kOdd[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '\n', '"', '\\',
                            '{',  '}',  '[',  ']',  ':',  '-',  '/', ' '};
constexpr size_t kMostBytes = 1 << 16;

size_t upTo(Draw& draw, size_t most) {
  return std::uniform_int_distribution<size_t>(0, most)(draw);
}

void changeOnce(Input& input, const Input& other, Draw& draw) {
  auto at = upTo(draw, input.empty() ? 0 : input.size() - 1);
  auto place = input.begin() + at;
  auto rest = input.size() - at;
  switch (upTo(draw, 6)) {
    case 0:
      if (rest > 0) *place ^= 1 << upTo(draw, 7);
      break;
    case 1:
      if (rest > 0) *place = kOdd[upTo(draw, std::size(kOdd) - 1)];
      break;
    case 2:
      input.insert(place, kOdd[upTo(draw, std::size(kOdd) - 1)]);
      break;
    case 3:
      input.erase(place, place + upTo(draw, std::min<size_t>(rest, 16)));
      break;
    case 4:
      input.resize(at);
      break;
    case 5:  // a piece of itself once more
      if (rest > 0) {
        Input piece(place, place + 1 + upTo(draw, std::min<size_t>(rest, 64) - 1));
        input.insert(input.begin() + upTo(draw, input.size()), piece.begin(), piece.end());
      }
      break;
    default:  // the end of another
      input.resize(at);
      input.insert(input.end(), other.begin() + upTo(draw, other.size()), other.end());
  }
}

Input changed(const std::vector<Input>& seeds, Draw& draw) {
  auto any = [&]() -> const Input& { return seeds[upTo(draw, seeds.size() - 1)]; };
  auto input = any();
  for (auto left = upTo(draw, 4) + 1; left > 0; left--) changeOnce(input, any(), draw);
  if (input.size() > kMostBytes) input.resize(kMostBytes);
  return input;
}

std::vector<Input> filesBelow(const char* folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code failed;
  for (auto& entry : std::filesystem::directory_iterator(folder, failed))
    paths.push_back(entry.path());
  if (failed) fprintf(stderr, "fuzz: %s: %s\n", folder, failed.message().c_str());
  std::ranges::sort(paths);
  std::vector<Input> found;
  for (auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return found;
}

// The target's current input: a signal handler has no other place to look.
const uint8_t* current = nullptr;
size_t currentSize = 0;

void keepInput(int number) {
  auto file = open("fuzz-crash", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file >= 0 && write(file, current, currentSize) == static_cast<ssize_t>(currentSize)) {
    constexpr std::string_view kSaid = "fuzz: the input is in fuzz-crash\n";
    (void)!write(STDERR_FILENO, kSaid.data(), kSaid.size());
  }
  signal(number, SIG_DFL);
  raise(number);
}

// Passes a copy of exactly the input's size: a read beyond its end touches another block of the
// heap.
void give(const Input& input) {
  auto exact = std::make_unique<uint8_t[]>(input.size());
  std::ranges::copy(input, exact.get());
  current = exact.get();
  currentSize = input.size();
  LLVMFuzzerTestOneInput(exact.get(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  constexpr std::string_view kRuns = "-runs=";
  size_t runs = 0;
  std::vector<Input> seeds;
  for (auto word = argv + 1; word < argv + argc; word++) {
    std::string_view text = *word;
    if (text.starts_with(kRuns)) {
      auto end = text.data() + text.size();
      auto read = std::from_chars(text.data() + kRuns.size(), end, runs);
      if (read.ec != std::errc() || read.ptr != end) {
        fprintf(stderr, "fuzz: %s: not a number of runs\n", *word);
        return 1;
      }
    } else {
      std::ranges::move(filesBelow(*word), std::back_inserter(seeds));
    }
  }
  if (seeds.empty()) {
    fprintf(stderr, "fuzz: no file to begin with: name a folder of the corpus\n");
    return 1;
  }
  for (auto number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, keepInput);
  for (auto& seed : seeds) give(seed);
  Draw draw(1);
  for (size_t run = 0; run < runs; run++) give(changed(seeds, draw));
  printf("%zu files of the corpus, and %zu times one of them changed\n", seeds.size(), runs);
}
