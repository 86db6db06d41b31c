#include "render/c_writer.h"

#include <algorithm>
#include <cctype>
#include <variant>

#include <fmt/format.h>

#include "quern/error.h"

#include "render/append.h"
#include "render/facts.h"
#include "shape/sint.h"

namespace quern {

namespace {

// Longer or deeper expressions get a name: readable, and far from any compiler's nesting limit.
constexpr size_t kMaxWidth = 110;
constexpr uint16_t kMaxDepth = 12;

const OpSet kExpressionOps = kAluOps | OpSet{Op::Cast, Op::Bitcast, Op::Gep, Op::Vectorize};
bool is_expression(UOp u) { return u.is(kExpressionOps) && !u.dtype().is_ptr(); }

/// "idiv_int": helper functions are an operation and types, joined so.
bool like_helper(std::string_view word) {
  static constexpr std::string_view kStems[] = {"idiv_", "mod_", "shl_", "shr_", "max_", "sqrt_", "make_"};
  bool stem =
      std::any_of(std::begin(kStems), std::end(kStems), [&](std::string_view s) { return word.starts_with(s); });
  return stem || word.find("_from_") != word.npos || word.find("_bits_of_") != word.npos;
}

std::string_view prefix_of(UOp u) {
  switch (u.op()) {
    case Op::Load: return "val";
    case Op::Cast:
    case Op::Bitcast: return "cast";
    case Op::Gep: return "gep";
    case Op::Vectorize: return "vec";
    default: return "alu";
  }
}

uint64_t accumulator_bit(UOp acc) { return uint64_t{1} << (acc.id() % 64); }

void add_once(std::vector<UOp>& list, UOp u) {
  if (std::find(list.begin(), list.end(), u) == list.end()) list.push_back(u);
}

}  // namespace

bool is_reserved_word(std::string_view word) {
  static constexpr std::string_view kWords[] = {
      "NAN",       "NULL",       "INFINITY",     "HUGE_VAL",    "alignas",  "alignof",   "and",         "and_eq",
      "asm",       "auto",       "barrier",      "bfloat",      "bfloat16", "bitand",    "bitor",       "blockDim",
      "blockIdx",  "bool",       "break",        "case",        "catch",    "char",      "class",       "compl",
      "concept",   "const",      "consteval",    "constexpr",   "constant", "constinit", "continue",    "decltype",
      "default",   "delete",     "device",       "do",          "double",   "else",      "enum",        "exp2",
      "explicit",  "export",     "extern",       "false",       "float",    "for",       "fragment",    "friend",
      "global",    "goto",       "gridDim",      "half",        "if",       "inline",    "int",         "kernel",
      "linux",     "local",      "log2",         "long",        "main",     "metal",     "mutable",     "namespace",
      "nan",       "new",        "noexcept",     "not",         "not_eq",   "nullptr",   "nv_bfloat16", "operator",
      "or",        "or_eq",      "pipe",         "precise",     "private",  "protected", "public",      "read_imagef",
      "read_only", "read_write", "register",     "requires",    "restrict", "return",    "short",       "signed",
      "sin",       "sizeof",     "sqrt",         "static",      "struct",   "switch",    "template",    "texel_sampler",
      "this",      "thread",     "threadIdx",    "threadgroup", "throw",    "true",      "try",         "typedef",
      "typeid",    "typename",   "typeof",       "uchar",       "uint",     "ulong",     "union",       "unix",
      "unsigned",  "ushort",     "using",        "vec_step",    "vertex",   "virtual",   "void",        "volatile",
      "warpSize",  "while",      "write_imagef", "write_only",  "xor",      "xor_eq"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

CWriter::CWriter(const CDialect& dialect, const LinearProgram& linear)
    : dialect_(dialect),
      linear_(linear),
      prelude_(dialect),
      launch_(launch_of(linear)),
      values_(linear.uops.size() + 1) {
  for (size_t i = linear.uops.size(); i-- > 0;) place_.set(linear.uops[i], static_cast<uint32_t>(i + 1));
}

std::string CWriter::write(const std::string& name) {
  body_.reserve(linear_.uops.size() * 32);
  count_uses();
  name_arguments();
  for (at_ = 0; at_ < linear_.uops.size(); ++at_) write(linear_.uops[at_]);
  std::string parameters = arguments();
  return concat(prelude_text(), dialect_.kernel(launch_), name, '(', parameters, ") {\n", body_, "}\n");
}

// One walk back over the program: who uses what, and from which scope. Addresses are written out at each use, so what they
// are computed from is used as often as they are.
void CWriter::count_uses() {
  std::vector<uint32_t> scope_at(linear_.uops.size());
  std::vector<uint32_t> open{0};
  uint32_t scopes = 0;
  for (size_t i = 0; i < linear_.uops.size(); ++i) {
    UOp u = linear_.uops[i];
    if (u.is({Op::Endrange, Op::Endif})) {
      if (open.size() < 2) throw InternalError("a scope closed that was never opened");
      open.pop_back();
    }
    scope_at[i] = open.back();
    if (u.is({Op::Range, Op::If})) open.push_back(++scopes);
    if (u.is({Op::Load, Op::Store})) mark_accesses(u);
  }
  for (size_t i = linear_.uops.size(); i-- > 0;) {
    UOp u = linear_.uops[i];
    Use own = use(u);
    if (own.count == 0 && (is_expression(u) || u.is({Op::Load, Op::Index, Op::Wmma}))) continue;  // nobody needs it
    bool address = u.dtype().is_ptr();
    for (UOp s : u.src()) {
      Use& other = use(s);
      if (other.count == 0) other.last = address ? own.last : static_cast<uint32_t>(i);
      other.count += address ? own.count : 1;
      other.scope = address ? own.scope : scope_at[i];
      other.needs_name |= u.is({Op::Gep, Op::Wmma});
    }
  }
}

void CWriter::mark_accesses(UOp u) { add_once(u.is(Op::Store) ? written_ : read_, access_of(u.src(0)).buffer); }
bool CWriter::is_written(UOp buffer) const {
  return std::find(written_.begin(), written_.end(), buffer) != written_.end();
}
bool CWriter::is_read(UOp buffer) const { return std::find(read_.begin(), read_.end(), buffer) != read_.end(); }

bool CWriter::is_taken(std::string_view word) const {
  bool identifier = !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) && word[0] != '_';
  return !identifier || is_reserved_word(word) || like_helper(word);
}

void CWriter::name_arguments() {
  buffers_ = buffers_of(linear_);
  vars_ = variables_of(linear_);
  for (std::string_view parameter : dialect_.work_item_parameters)
    if (!parameter.empty()) {
      std::string_view rest = parameter.substr(parameter.find(' ') + 1);
      names_.emplace(rest.substr(0, rest.find(' ')));
    }
  for (UOp b : buffers_) define(b, unique(concat("data", std::get<int64_t>(b.arg()))));
  for (UOp v : vars_) {
    std::string name = std::get<const VarArg*>(v.arg())->name;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) > 127) c = '_';
    define(v, unique(is_taken(name) ? "var_" + name : name));
  }
}

std::string CWriter::arguments() {
  std::string text;
  auto add = [&](std::string_view parameter) { append(text, text.empty() ? "" : ", ", parameter); };
  for (UOp b : buffers_) {
    if (b.dtype().is_image()) {
      std::string_view access = !is_written(b) ? "read_only" : is_read(b) ? "read_write" : "write_only";
      add(fmt::format(fmt::runtime(dialect_.image), access, expr(b).text));
    } else {
      add(fmt::format(fmt::runtime(dialect_.buffer), is_written(b) ? "" : "const ",
                      prelude_.memory_type(b.dtype().scalar), expr(b).text));
    }
  }
  for (UOp v : vars_) add(fmt::format(fmt::runtime(dialect_.variable), type(v.dtype()), expr(v).text));
  for (char kind : work_items_) {
    std::string_view parameter = dialect_.work_item_parameters[kind == 'g' ? 0 : kind == 'l' ? 1 : 2];
    if (!parameter.empty()) add(parameter);
  }
  return text.empty() ? std::string(dialect_.no_arguments) : text;
}

std::string CWriter::prelude_text() const {
  return concat(dialect_.header, has_product_ && has_sum_ ? dialect_.no_contraction : "", prelude_.text(),
                has_images_ ? dialect_.image_header : "");
}

// --- names and lines ---

std::string CWriter::unique(std::string wanted) {
  if (names_.insert(wanted).second) return wanted;
  std::string name;
  int i = 1;
  do name = concat(wanted, '_', i++);
  while (!names_.insert(name).second);
  return name;
}

std::string CWriter::numbered(std::string_view prefix) {
  for (auto& [known, count] : counters_)
    if (known == prefix) return unique(concat(prefix, count++));
  counters_.emplace_back(prefix, 1);
  return unique(concat(prefix, '0'));
}

/// Puts the value of `u` into a variable.
void CWriter::name_value(UOp u, const Expr& e) {
  std::string name = numbered(prefix_of(u));
  line(type(u.dtype()), ' ', name, " = ", e.text, ';');
  define(u, std::move(name));
}

/// Computes `u` in place of its use if it has one there, else into a variable.
void CWriter::write_expression(UOp u) {
  Use used = use(u);
  if (used.count == 0) return;
  depth_ = 0;
  accumulators_ = 0;
  Expr e = expression(u);
  e.depth = static_cast<uint16_t>(depth_ + 1);
  e.accumulators = accumulators_;
  bool elsewhere = used.scope != scope_id() || used.needs_name;
  bool bulky = e.text.size() > kMaxWidth || e.depth > kMaxDepth;
  if (u.is(Op::Gep) && e.binding == kAtom && e.accumulators == 0 && !used.needs_name) {
    expr(u) = std::move(e);  // as short as a name
  } else if (used.count > 1 || elsewhere || bulky) {
    name_value(u, e);
  } else {
    if (e.accumulators != 0) waiting_.push_back(u);
    expr(u) = std::move(e);
  }
}

// --- memory ---

/// The place an address means, as an lvalue of its type.
std::string CWriter::place(UOp address, bool write) {
  Access access = access_of(address);
  std::string buffer = take(access.buffer, kAtom);
  if (address.dtype().count == 1) return concat(buffer, '[', access.index ? take(access.index, kLoose) : "0", ']');
  std::string sum = access.index ? concat('(', buffer, " + ", take(access.index, kSum), ')') : buffer;
  std::string_view space = access.buffer.dtype().is_local() ? dialect_.local_space : dialect_.global_space;
  return concat("*(", space, write ? "" : "const ", type(address.dtype().base()), "*)", sum);
}

void CWriter::write_load(UOp u) {
  if (use(u).count == 0) return;
  depth_ = 0;
  accumulators_ = 0;
  Access access = access_of(u.src(0));
  std::string text;
  if (access.buffer.dtype().is_image()) {
    has_images_ = true;
    text = fmt::format(fmt::runtime(dialect_.image_read), take(access.buffer, kAtom), take(access.index, kLoose));
  } else {
    text = place(u.src(0), is_written(access.buffer));
  }
  // The one branch that is not taken is not evaluated: a load that is gated off touches no memory.
  if (UOp gate = gate_of(u)) text = concat(take(gate, kPrefix), " ? ", text, " : ", take(alternative_of(u), kSum));
  name_value(u, {std::move(text), kLoose});
}

void CWriter::write_store(UOp u) {
  std::string guard;
  if (u.num_src() > 2 && u.src(2).dtype().is_bool()) guard = concat("if (", take(u.src(2), kLoose), ") ");
  std::string value = take(u.src(1), kLoose);
  Access access = access_of(u.src(0));
  if (access.buffer.dtype().is_image()) {
    std::string image = take(access.buffer, kAtom), at = take(access.index, kLoose);
    return line(guard + fmt::format(fmt::runtime(dialect_.image_write), image, at, value));
  }
  line(guard, place(u.src(0), true), " = ", value, ';');
}

void CWriter::write_local(UOp u) {
  const LocalArg& local = *std::get<const LocalArg*>(u.arg());
  std::string name = unique(is_taken(local.name) ? "local_" + local.name : local.name);
  line(fmt::format(fmt::runtime(dialect_.local), prelude_.memory_type(u.dtype().scalar), name, local.size));
  define(u, std::move(name));
}

// --- scopes and accumulators ---

void CWriter::close_scope() {
  for (auto& [u, e] : scopes_.back().restore) expr(u) = std::move(e);
  scopes_.pop_back();
  line("}");
}

void CWriter::write_range(UOp u) {
  const auto& r = std::get<RangeArg>(u.arg());
  std::string name = unique(concat(r.reduce ? "r" : "g", "idx", r.axis));
  line(fmt::format("for ({0} {1} = {2}; {1} < {3}; {1}++) {{", type(u.dtype()), name, take(u.src(0), kSum),
                   take(u.src(1), kSum)));
  open_scope();
  define(u, std::move(name));
}

void CWriter::write_accumulator(UOp u) {
  std::string name = numbered("acc");
  line(type(u.dtype()), ' ', name, " = ", take(u.src(0), kLoose), ';');
  expr(u) = Expr{std::move(name), kAtom, 0, false, accumulator_bit(u)};
}

void CWriter::write_assign(UOp u) {
  UOp acc = accumulator_of(u);
  uint64_t bit = accumulator_bit(acc);
  accumulators_ = 0;
  std::string text = take(u.src(1), kLoose);
  // What still waits to be written and reads the old value has to be computed before it is lost.
  size_t kept = 0;
  for (UOp w : waiting_) {
    if (expr(w).consumed) continue;
    if (expr(w).accumulators & bit) {
      name_value(w, expr(w));
    } else {
      waiting_[kept++] = w;
    }
  }
  waiting_.resize(kept);
  std::string name = expr(acc).text;
  if (use(acc).last > at_ && !scopes_.empty()) {
    std::string before = unique(name + "_before");
    line(type(acc.dtype()), ' ', before, " = ", name, ';');
    scopes_.back().restore.emplace_back(acc, expr(acc));
    define(acc, std::move(before));
  }
  line(name, " = ", text, ';');
  expr(u) = Expr{std::move(name), kAtom, 0, false, bit};
}

// --- threads and tensor cores ---

void CWriter::write_wmma(UOp u) {
  if (use(u).count == 0) return;
  UOp a = u.src(0), b = u.src(1), c = u.src(2);
  const WmmaArg& arg = *std::get<const WmmaArg*>(u.arg());
  if (!dialect_.wmma) cannot_render(u, dialect_.language, "it has no tensor cores");
  std::string name = numbered("wmma");
  for (UOp s : u.src()) type(s.dtype());
  std::string function = dialect_.wmma(prelude_, arg, a.dtype(), b.dtype(), c.dtype());
  if (dialect_.wmma_by_address) {
    line(type(u.dtype()), ' ', name, " = ", take(c, kLoose), ';');
    line(function, "(&", take(a, kAtom), ", &", take(b, kAtom), ", &", name, ");");
  } else {
    line(type(u.dtype()), ' ', name, " = ", function, '(', take(a, kLoose), ", ", take(b, kLoose), ", ",
         take(c, kLoose), ");");
  }
  define(u, std::move(name));
}

void CWriter::write_work_item(UOp u) {
  if (use(u).count == 0) return;
  const SpecialArg& special = *std::get<const SpecialArg*>(u.arg());
  if (!dialect_.work_item) cannot_render(u, dialect_.language, "it has no threads");
  char kind = special.name[0];
  work_items_.insert(kind);
  std::string name = unique(special.name);
  line("int ", name, " = ", dialect_.work_item(kind, special.name.back() - '0'), ";  // of ", size_text(special.size));
  define(u, std::move(name));
}

void CWriter::write(UOp u) {
  switch (u.op()) {
    case Op::DefineGlobal:
      if (u.dtype().is_image() && dialect_.image.empty()) cannot_render(u, dialect_.language, "it has no images");
      return;
    case Op::DefineVar: return;
    case Op::Const: {
      std::string text = prelude_.literal(u);
      bool has_cast = text[0] == '(' && text[1] != '-';
      Binding binding = text[0] == '-' || has_cast ? kPrefix : kAtom;
      expr(u) = Expr{std::move(text), binding};
      return;
    }
    case Op::DefineLocal: return write_local(u);
    case Op::DefineAcc: return write_accumulator(u);
    case Op::Special: return write_work_item(u);
    case Op::Range: return write_range(u);
    case Op::If: line("if (", take(u.src(0), kLoose), ") {"); return open_scope();
    case Op::Endrange:
    case Op::Endif: return close_scope();
    case Op::Assign: return write_assign(u);
    case Op::Barrier:
      if (!dialect_.barrier.empty()) line(dialect_.barrier);
      return;
    case Op::Index:
    case Op::Sink:
    case Op::Noop: return;  // addresses are written where they are used
    case Op::Load: return write_load(u);
    case Op::Store: return write_store(u);
    case Op::Wmma: return write_wmma(u);
    default:
      if (u.is(Op::Cast) && u.dtype().is_ptr()) return;
      if (!is_expression(u)) cannot_render(u, dialect_.language);
      return write_expression(u);
  }
}

}  // namespace quern
