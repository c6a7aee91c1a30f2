/**
 * Translates the kernels of a PTX module to C++ for images_harness.cpp. An instruction becomes a
 * statement, a label the target of a `goto`, and `bar.sync` the harness's barrier. The harness is
 * informed before each access. The translator throws for an instruction, a type or a form that the
 * compiler of our kernels does not use.
 *
 * The meaning of the instructions is from NVIDIA's PTX ISA.
 */

/** C++ definitions of PTX operations that C++ lacks. */
const HEAD = `
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <time.h>
#include <type_traits>
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
typedef int8_t s8; typedef int16_t s16; typedef int32_t s32; typedef int64_t s64; typedef float f32; typedef bool pred;
extern "C" size_t get_local_id(unsigned) __asm__("_Z12get_local_idj");
extern "C" size_t get_local_size(unsigned) __asm__("_Z14get_local_sizej");
extern "C" size_t get_group_id(unsigned) __asm__("_Z12get_group_idj");
extern "C" size_t get_num_groups(unsigned) __asm__("_Z14get_num_groupsj");
extern "C" void barrier(unsigned) __asm__("_Z7barrierj");
extern "C" void __tsan_read1(void*), __tsan_read2(void*), __tsan_read4(void*), __tsan_read8(void*), __tsan_read16(void*);
extern "C" void __tsan_write1(void*), __tsan_write2(void*), __tsan_write4(void*), __tsan_write8(void*), __tsan_write16(void*);
// The bits of one number as another one of its size.
template <class To, class From> static To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a move between two sizes");
  To to; std::memcpy(&to, &from, sizeof to); return to;
}
template <class T> using Signed = std::make_signed_t<T>;
// A register takes numbers that are narrower than it, extended as their type says.
template <class To, class From> static To widened(From from) {
  if constexpr (std::is_same_v<To, From>) return from;
  else if constexpr (std::is_same_v<To, f32> || std::is_same_v<From, f32>) return bits<To>(from);
  else if constexpr (std::is_signed_v<From>) return To(Signed<To>(from));
  else return To(from);
}
static void aligned(u64 at, u64 bytes) {
  if (at % bytes == 0) return;
  std::fprintf(stderr, "an access of %u bytes at an address that is no multiple of it\\n", unsigned(bytes));
  std::exit(1);
}
template <class T> static T loaded(u64 at) { T value; std::memcpy(&value, reinterpret_cast<void*>(at), sizeof value); return value; }
template <class T> static void stored(u64 at, T value) { std::memcpy(reinterpret_cast<void*>(at), &value, sizeof value); }
template <class T, class P> static T param(const P& from) { static_assert(sizeof(T) <= sizeof(P), ""); T value; std::memcpy(&value, &from, sizeof value); return value; }
template <class T> static T shifted_left(T a, u32 by) { return by >= 8 * sizeof(T) ? T(0) : T(a << by); }
template <class T> static T shifted_right(T a, u32 by) {
  const u32 most = 8 * sizeof(T) - 1;
  if (std::is_signed_v<T>) return T(a >> (by > most ? most : by));
  return by > most ? T(0) : T(a >> by);
}
template <class T> static T field(T a, u32 from, u32 length) {
  from &= 255, length &= 255;
  const T rest = shifted_right(a, from);
  return length >= 8 * sizeof(T) ? rest : T(rest & T(shifted_left(T(1), length) - 1));
}
template <class T> static T quotient(T a, T b) { return b == 0 ? T(-1) : b == T(-1) && std::is_signed_v<T> ? T(0 - std::make_unsigned_t<T>(a)) : T(a / b); }
template <class T> static T remainder_of(T a, T b) { return b == 0 ? a : b == T(-1) && std::is_signed_v<T> ? T(0) : T(a % b); }
static f32 greater(f32 a, f32 b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
}
// Towards zero, held within the type; no number is 0.
template <class T> static T whole(f32 a) {
  const double least = double(std::is_signed_v<T> ? -std::ldexp(1.0, 8 * sizeof(T) - 1) : 0), end = std::ldexp(1.0, 8 * sizeof(T) - std::is_signed_v<T>);
  return std::isnan(a) ? T(0) : double(a) <= least ? T(least) : double(a) >= end ? T(T(~std::make_unsigned_t<T>(0)) >> 0) : T(a);
}
extern "C" unsigned long long* executed;
static u64 nanoseconds() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return u64(t.tv_sec) * 1000000000u + u64(t.tv_nsec); }
`;

const SPECIAL: Record<string, string> = {
  '%tid.x': 'u32(get_local_id(0))',
  '%ntid.x': 'u32(get_local_size(0))',
  '%ctaid.x': 'u32(get_group_id(0))',
  '%nctaid.x': 'u32(get_num_groups(0))',
  '%globaltimer': 'nanoseconds()',
};
/** Types of registers by the letters that the compiler uses in their names. */
const REGISTERS: Record<string, string> = { p: 'pred', rs: 'u16', r: 'u32', rd: 'u64', f: 'f32' };
const COMPARISONS: Record<string, string> = {
  eq: '==',
  ne: '!=',
  lt: '<',
  le: '<=',
  gt: '>',
  ge: '>=',
};
const BITS: Record<string, string> = { b8: 'u8', b16: 'u16', b32: 'u32', b64: 'u64' };
const size = (type: string) => (type === 'pred' ? 0 : Number(/\d+/.exec(type)?.[0]) / 8);

export class UnknownPtx extends Error {}

/**
 * Returns the module as C++, with an `extern "C"` function for each kernel and the same order of
 * parameters. With `counted`, each instruction adds 1 to `*executed` of the harness. Throws
 * UnknownPtx for unknown text.
 */
export function cppOf(ptx: string, counted = false): string {
  const text = ptx.replaceAll(/\/\/.*$/gm, '');
  const functions: string[] = [];
  const known = new Set<string>();
  const rest = text.replaceAll(
    /^(?:\.visible )?\.(entry|func)\s*(?:\(\.param \.(\w+) (\w+)\))?\s*(\w+)\s*\(([^)]*)\)\s*(?:;|\{\s*\n(.*?)^\}\n)/gms,
    (
      _,
      kind: string,
      result: string,
      returned: string,
      name: string,
      list: string,
      body?: string,
    ) => {
      const parameters = [...list.matchAll(/\.param \.(\w+) (\w+)/g)].map(
        ([, type = '', of]) => `${BITS[type] ?? type} ${of}`,
      );
      const type =
        kind === 'entry'
          ? 'extern "C" void'
          : `static ${BITS[result] ?? unknown('a result', result)}`;
      const head = `${type} ${name}(${parameters.join(', ')})`;
      if (body === undefined) functions.push(`${head};`);
      else
        functions.push(
          `${head} {\n${bodyOf(body, kind === 'entry' ? null : `${BITS[result]} ${returned}`, counted)}}`,
        );
      known.add(name);
      return '';
    },
  );
  const left = rest.replaceAll(/^\s*\.(version|target|address_size)\b.*$/gm, '').trim();
  if (left !== '') unknown('a declaration', left);
  return `${HEAD}\n${functions.join('\n\n')}\n`;
}

function unknown(what: string, text: string): never {
  throw new UnknownPtx(`${what} that is not translated: '${text.trim().split('\n')[0]}'`);
}

function bodyOf(body: string, result: string | null, counted: boolean): string {
  const lines: string[] = result === null ? [] : [`  ${result};`];
  const returned = result?.split(' ')[1];
  // Puts labels and the braces of a call on lines of their own.
  for (const raw of body.replaceAll(/^(\s*[{}]\s*|LBB\w+:)$/gm, '$1;').split(';')) {
    const statement = raw.trim().replaceAll(/\s+/g, ' ');
    if (statement === '') continue;
    if (statement === '{' || statement === '}') lines.push(statement);
    else
      lines.push(
        `  ${counted && isInstruction(statement) ? '++*executed; ' : ''}${statementOf(statement, returned)}`,
      );
  }
  return `${lines.join('\n')}\n`;
}

/** Returns whether the statement is neither a label nor a declaration. */
const isInstruction = (statement: string) => !/^(LBB\w+:$|\.)/.test(statement);

function statementOf(statement: string, returned: string | undefined): string {
  if (/^LBB\w+:$/.test(statement)) return `${statement};`;
  const registers = /^\.reg \.(\w+) %(\w+)<(\d+)>$/.exec(statement);
  if (registers) {
    const [, , letters = '', count] = registers;
    const type = REGISTERS[letters] ?? unknown('a register', statement);
    return `${type} ${Array.from({ length: Number(count) }, (_, i) => `${letters}${i}_`).join(', ')};`;
  }
  if (statement === '.reg .b32 temp_param_reg' || statement === '.pragma "nounroll"') return '';
  const parameter = /^\.param \.(\w+) (\w+)$/.exec(statement);
  if (parameter)
    return `${BITS[parameter[1] as string] ?? unknown('a parameter', statement)} ${parameter[2]};`;
  const shared = /^\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]$/.exec(statement);
  if (shared) return `static char ${shared[2]}[${shared[3]}] __attribute__((aligned(16)));`;
  const guarded = /^@(!?)%(p\d+) (.*)$/.exec(statement);
  if (guarded)
    return `if (${guarded[1]}${guarded[2]}_) { ${instructionOf(guarded[3] as string, returned)} }`;
  return instructionOf(statement, returned);
}

function instructionOf(instruction: string, returned: string | undefined): string {
  const [, name = '', operands = ''] = /^(\S+) ?(.*)$/.exec(instruction) ?? [];
  const [op = '', ...modifiers] = name.split('.');
  const type = modifiers.at(-1) ?? '';
  const given = operands.match(/\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s]+/g) ?? [];
  const [to = '', a = '', b = '', c = ''] = given;
  const refuse = () => unknown('an instruction', instruction);
  const into = (value: string, of = type) =>
    `${registerOf(to)} = widened<${typeOf(to)}>(${typed(of)}(${value}));`;
  const arithmetic = (sign: string) => {
    const unsigned = typed(type).replace('s', 'u');
    return into(`${unsigned}(${value(a, unsigned)} ${sign} ${value(b, unsigned)})`);
  };
  const is = (...forms: string[]) => forms.includes(modifiers.join('.'));
  const whole = /^[su](16|32|64)$/.test(type);
  switch (op) {
    case 'add':
    case 'sub':
    case 'mul': {
      const sign = { add: '+', sub: '-', mul: '*' }[op];
      if (is('rn.f32')) return into(`${value(a, 'f32')} ${sign} ${value(b, 'f32')}`);
      if (op === 'mul' && is('hi.u32'))
        return into(`u64(${value(a, 'u32')}) * ${value(b, 'u32')} >> 32`);
      if (op === 'mul' && is('wide.s32'))
        return into(`s64(${value(a, 's32')}) * ${value(b, 's32')}`, 's64');
      if (op === 'mul' && is('wide.u32'))
        return into(`u64(${value(a, 'u32')}) * ${value(b, 'u32')}`, 'u64');
      return whole &&
        modifiers.length === (op === 'mul' ? 2 : 1) &&
        (op !== 'mul' || modifiers[0] === 'lo')
        ? arithmetic(sign)
        : refuse();
    }
    case 'fma':
      // fmaf() rounds once, with or without an instruction of the CPU for it.
      return is('rn.f32')
        ? into(`fmaf(${value(a, 'f32')}, ${value(b, 'f32')}, ${value(c, 'f32')})`)
        : refuse();
    case 'mad': {
      const unsigned = typed(type).replace('s', 'u');
      const [x, y, z] = [value(a, unsigned), value(b, unsigned), value(c, unsigned)];
      return is('lo.s32') ? into(`${unsigned}(${x} * ${y} + ${z})`) : refuse();
    }
    case 'div':
      if (is('rn.f32')) return into(`${value(a, 'f32')} / ${value(b, 'f32')}`);
      return whole ? into(`quotient<${type}>(${value(a, type)}, ${value(b, type)})`) : refuse();
    case 'rem':
      return whole ? into(`remainder_of<${type}>(${value(a, type)}, ${value(b, type)})`) : refuse();
    case 'rcp':
      return is('rn.f32') ? into(`1.0f / ${value(a, 'f32')}`) : refuse();
    case 'sqrt':
      return is('rn.f32') ? into(`std::sqrt(${value(a, 'f32')})`) : refuse();
    case 'neg':
      if (is('f32')) return into(`-${value(a, 'f32')}`);
      return is('s64') || is('s32') ? into(`0 - ${value(a, type.replace('s', 'u'))}`) : refuse();
    case 'abs': {
      const [x, bare] = [value(a, type), value(a, type.replace('s', 'u'))];
      return is('s64') || is('s32') ? into(`${x} < 0 ? 0 - ${bare} : ${bare}`) : refuse();
    }
    case 'not':
      if (is('pred')) return into(`!${value(a, 'pred')}`);
      return type in BITS ? into(`~${value(a, type)}`) : refuse();
    case 'and':
    case 'or':
    case 'xor': {
      if (!(type in BITS || is('pred'))) return refuse();
      return into(`${value(a, type)} ${{ and: '&', or: '|', xor: '^' }[op]} ${value(b, type)}`);
    }
    case 'shl':
      return type in BITS
        ? into(`shifted_left<${typed(type)}>(${value(a, type)}, ${value(b, 'u32')})`)
        : refuse();
    case 'shr':
      return whole
        ? into(`shifted_right<${type}>(${value(a, type)}, ${value(b, 'u32')})`)
        : refuse();
    case 'bfe':
      if (!is('u32') && !is('u64')) return refuse();
      return into(`field<${type}>(${value(a, type)}, ${value(b, 'u32')}, ${value(c, 'u32')})`);
    case 'min':
    case 'max': {
      const [x, y] = [value(a, type), value(b, type)];
      if (op === 'max' && is('f32')) return into(`greater(${x}, ${y})`);
      return whole ? into(`${x} ${op === 'min' ? '<' : '>'} ${y} ? ${x} : ${y}`) : refuse();
    }
    case 'setp': {
      const [comparison = ''] = modifiers;
      const [x, y] = [value(a, type), value(b, type)];
      if (modifiers.length !== 2) return refuse();
      if (comparison in COMPARISONS) return into(`${x} ${COMPARISONS[comparison]} ${y}`, 'pred');
      const unordered = `(std::isnan(${x}) || std::isnan(${y}))`;
      if (type !== 'f32') return refuse();
      if (comparison === 'nan') return into(unordered, 'pred');
      if (comparison === 'num') return into(`!${unordered}`, 'pred');
      const ordered = COMPARISONS[comparison.slice(0, -1)];
      return comparison.endsWith('u') && ordered
        ? into(`${unordered} || ${x} ${ordered} ${y}`, 'pred')
        : refuse();
    }
    case 'selp':
      return modifiers.length === 1
        ? into(`${value(c, 'pred')} ? ${value(a, type)} : ${value(b, type)}`)
        : refuse();
    case 'cvt': {
      const [rounding = '', target = ''] = modifiers;
      if (modifiers.length === 2) return into(`${typed(rounding)}(${value(a, type)})`, rounding);
      if (rounding === 'rn' && target === 'f32') return into(`f32(${value(a, type)})`, 'f32');
      return rounding === 'rzi' && type === 'f32'
        ? into(`whole<${target}>(${value(a, 'f32')})`, target)
        : refuse();
    }
    case 'cvta':
      return is('to.global.u64') || is('global.u64') ? into(value(a, 'u64')) : refuse();
    case 'mov':
      return modifiers.length === 1 ? into(value(a, type)) : refuse();
    case 'ld':
    case 'st':
      return access(op, modifiers, op === 'ld' ? to : a, op === 'ld' ? a : to, refuse);
    case 'call': {
      const [results, callee, list] = given;
      return modifiers.join() === 'uni'
        ? `${(results as string).slice(1, -1)} = ${callee}${list};`
        : refuse();
    }
    case 'bra':
      return modifiers.length === 0 || is('uni') ? `goto ${to};` : refuse();
    case 'bar':
      return name === 'bar.sync' && to === '0' ? 'barrier(3);' : refuse();
    case 'ret':
      return `return${returned === undefined ? '' : ` ${returned}`};`;
    case 'trap':
      return '__builtin_trap();';
    default:
      return refuse();
  }
}

/** Translates loads and stores: of parameters, and of memory, which are reported to the harness. */
function access(
  op: 'ld' | 'st',
  modifiers: string[],
  data: string,
  place: string,
  refuse: () => never,
): string {
  const type = modifiers.at(-1) as string;
  const [, base = '', offset = '0'] = /^\[(%?\w+)(?:\+(-?\d+))?\]$/.exec(place) ?? refuse();
  const spaces = modifiers.slice(0, -1).filter((each) => !['nc', 'volatile', 'v4'].includes(each));
  const [space = ''] = spaces;
  if (spaces.length > 1 || !['', 'param', 'global', 'shared'].includes(space)) refuse();
  if (space === 'param') {
    if (offset !== '0') refuse();
    if (op === 'st')
      return `std::memcpy(&${base}, &(const ${typed(type)}&)(${value(data, type)}), sizeof ${base});`;
    return `${registerOf(data)} = widened<${typeOf(data)}>(param<${typed(type)}>(${base}));`;
  }
  const parts = modifiers.includes('v4') ? (data.slice(1, -1).match(/%\w+/g) as string[]) : [data];
  const bytes = size(type) * parts.length;
  const at = `u64(${value(base, 'u64')} + ${offset})`;
  const told = `const u64 at = ${at}; aligned(at, ${bytes}); __tsan_${op === 'ld' ? 'read' : 'write'}${bytes}((void*)at);`;
  const moves = parts.map((part, i) => {
    const here = `at + ${i * size(type)}`;
    if (op === 'st')
      return `stored<${typed(type)}>(${here}, ${typed(type)}(${value(part, type)}));`;
    return `${registerOf(part)} = widened<${typeOf(part)}>(loaded<${typed(type)}>(${here}));`;
  });
  return `{ ${told} ${moves.join(' ')} }`;
}

/** Returns the C++ type that computes an instruction of this type. */
function typed(type: string): string {
  const plain = BITS[type] ?? type;
  return /^([su](8|16|32|64)|f32|pred)$/.test(plain) ? plain : unknown('a type', type);
}
const registerOf = (operand: string) =>
  /^%(p|rs|r|rd|f)\d+$/.test(operand) ? `${operand.slice(1)}_` : unknown('a target', operand);
const typeOf = (register: string) =>
  REGISTERS[/^%([a-z]+)/.exec(register)?.[1] as string] as string;

/**
 * Returns an operand as this type: a register's low bits, a number, or the address of shared
 * memory.
 */
function value(operand: string, type: string): string {
  const wanted = typed(type);
  if (operand in SPECIAL) return SPECIAL[operand] as string;
  if (/^%(p|rs|r|rd|f)\d+$/.test(operand)) {
    const own = typeOf(operand);
    if (own === wanted) return registerOf(operand);
    // Reads a float register as bits, or bits as a float.
    if (own === 'f32' || wanted === 'f32') return `bits<${wanted}>(${registerOf(operand)})`;
    return `${wanted}(${registerOf(operand)})`;
  }
  const float = /^0f([0-9A-F]{8})$/.exec(operand);
  if (float)
    return wanted === 'f32' ? `bits<f32>(u32(0x${float[1]}))` : `${wanted}(0x${float[1]}u)`;
  if (/^-?\d+$/.test(operand))
    return wanted === 'pred' ? `bool(${operand})` : `${wanted}(${numberOf(operand)})`;
  if (/^_Z\w+$/.test(operand)) return `u64(${operand})`;
  return unknown('an operand', operand);
}
const numberOf = (digits: string) =>
  BigInt(digits) === -(2n ** 63n)
    ? '(-9223372036854775807 - 1)'
    : `${digits}${digits.startsWith('-') ? 'll' : 'ull'}`;
